"""Translation Score of a shipped head set, read by Transformers on the same held-out pairs.

python -m lab.real_world.reference --config laptop-low --target de it --output FILE
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from alignatt_agent.calibration.head_scores import both_rows, cumulative_hits
from alignatt_agent.calibration.pairs import PairError
from alignatt_agent.calibration.pairs_file import read_pairs
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.row_reader import DEFAULT_CONTEXT
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.evaluation.run_files import write_json
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.translation.prompt import PromptBuilder

PAIRS = Path("~/.cache/alignatt/real/pairs").expanduser()


def judge(engine: Any, config: Any, target: str, pairs: Path) -> dict[str, Any]:
    """Score the head set of a target and all heads, with the set's row, on held-out pairs."""
    head_set = load_head_set(config.head_sets[target])
    scores = np.array(head_set.ts_matrix)
    others = zip(*np.unravel_index(np.argsort(-scores, axis=None), scores.shape), strict=True)
    heads = [*head_set.heads, *(x for x in others if x not in head_set.heads)]
    heads = [(int(layer), int(head)) for layer, head in heads]
    ends = language(config.source_language), language(target)
    builder = PromptBuilder.of(engine.tokenizer, config.prompt, *ends)
    prompter = PairPrompter(engine.tokenizer, builder, DEFAULT_CONTEXT)
    hits, tokens, best = [], [], len(head_set.heads)
    for pair in tqdm(read_pairs(str(pairs), *ends).pairs, desc=target, unit="pair"):
        try:
            aligned = prompter(pair, pair.gold or frozenset())
        except PairError:
            continue
        rows = both_rows(engine, aligned, heads)[head_set.row]
        hits.append(cumulative_hits(rows, aligned, range(len(heads)))[[best - 1, -1]])
        tokens.append(aligned.aligned)
    found, every = np.array(hits).T
    return {
        "direction": head_set.direction,
        "row": head_set.row,
        "n_aligned_tokens": sum(tokens),
        "head_set": micro(found, tokens).as_json(),
        "all_heads": micro(every, tokens).as_json(),
        "vllm": json.loads(_file(head_set.name).read_text(encoding="utf-8"))["held_out"],
    }


def _file(name: str) -> Path:
    return Path("head_sets") / f"{name}.json"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="laptop-low")
    parser.add_argument("--target", nargs="+", required=True)
    parser.add_argument(
        "--pairs", type=Path, default=PAIRS, help="folder of en-TARGET.held-out.tsv"
    )
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    config = load_config(args.config)
    model = config.models.translation
    engine = TransformersEngine(str(locate_one(model)), dtype=model.dtype)
    about = f"Transformers, {engine.attention} attention, {model.dtype}; {args.config}"
    rows = json.loads(args.output.read_text())["rows"] if args.output.is_file() else []
    for target in args.target:
        file = args.pairs / f"en-{target}.held-out.tsv"
        rows = [*rows, judge(engine, config, target, file)]
        write_json(args.output, {"engine": about, "rows": rows})


if __name__ == "__main__":
    main()
