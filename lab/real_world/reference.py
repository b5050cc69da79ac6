"""Compute Translation Scores of shipped head sets with Transformers, on the same held-out pairs.

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
from alignatt_agent.config.resources import find_resource
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.translation.prompt import PromptBuilder
from lab import commands
from lab.real_world import OUTPUT


def judge(engine: Any, config: Any, target: str, pairs: Path) -> dict[str, Any]:
    """Score the head set of a target and all heads, with the set's row, on held-out pairs."""
    head_set = load_head_set(config.head_sets[target])
    heads = sorted(head_set.scores, key=head_set.scores.__getitem__, reverse=True)
    source_language, target_language = language(config.source_language), language(target)
    builder = PromptBuilder.of(engine.tokenizer, config.prompt, source_language, target_language)
    prompter = PairPrompter(engine.tokenizer, builder, DEFAULT_CONTEXT)
    file = find_resource("head_sets", head_set.name, (".json",))
    # Heads are sorted by score, so the first ones are those of the set.
    set_and_all = [len(head_set.heads) - 1, -1]
    hits, tokens = [], []
    readable = read_pairs(str(pairs), source_language, target_language).pairs
    for pair in tqdm(readable, desc=target, unit="pair"):
        try:
            aligned = prompter(pair, pair.gold or frozenset())
        except PairError:
            continue
        rows = both_rows(engine, aligned, heads)[head_set.row]
        by_count = cumulative_hits(rows, aligned, range(len(heads)))
        hits.append(by_count[set_and_all])
        tokens.append(aligned.aligned)
    set_hits, all_hits = np.array(hits).T
    return {
        "direction": head_set.direction,
        "row": head_set.row,
        "n_aligned_tokens": sum(tokens),
        "head_set": micro(set_hits, tokens).as_json(),
        "all_heads": micro(all_hits, tokens).as_json(),
        "vllm": json.loads(file.read_text(encoding="utf-8"))["held_out"],
    }


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.real_world.reference", __doc__)
    parser.add_argument("--config", default="laptop-low", help="default: %(default)s")
    parser.add_argument("--target", nargs="+", required=True, metavar="CODE")
    parser.add_argument("--output", type=Path, required=True, help="JSON file; keeps other targets")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = build_parser().parse_args(argv)
    config = load_config(args.config)
    model = config.models.translation
    engine = TransformersEngine(str(locate_one(model)), dtype=model.dtype)
    rows: list[dict[str, Any]] = []
    if args.output.is_file():
        rows = json.loads(args.output.read_text())["rows"]
    for code in args.target:
        rows.append(judge(engine, config, code, OUTPUT / "pairs" / f"en-{code}.held-out.tsv"))
        # Written after each target, because one takes long.
        document = {"config": args.config, **commands.machine(), "rows": rows}
        commands.write_json(args.output, document)


if __name__ == "__main__":
    main()
