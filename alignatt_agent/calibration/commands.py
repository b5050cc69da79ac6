"""The smaller commands of ``alignatt-calibrate``: explain, export, unite."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from alignatt_agent.calibration.explain import PROVENANCE, Reconstruction, explain
from alignatt_agent.calibration.explain_figure import reconstruction
from alignatt_agent.calibration.head_set_file import write
from alignatt_agent.calibration.pairs import PairsError
from alignatt_agent.calibration.pairs_file import read_pairs, write_pairs
from alignatt_agent.calibration.row_reader import ENGINES, open_reader
from alignatt_agent.calibration.union import unite
from alignatt_agent.config.agent_config import load_config, parse_overrides
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import head_set_for
from alignatt_agent.config.resources import find_resource
from alignatt_agent.policy import build_policy
from alignatt_agent.translation.prompt import PromptBuilder


def explain_command(argv: Sequence[str]) -> int:
    """``alignatt-calibrate explain``."""
    parser = argparse.ArgumentParser(
        prog="alignatt-calibrate explain",
        description="Draft once, as the agent would, and show what it saw, which source word each "
        "drafted word looked at, and what the gate accepted.",
    )
    parser.add_argument("text", help="the source sentence as heard so far")
    parser.add_argument("--config", required=True, help="name or path of a YAML configuration")
    parser.add_argument("--target", required=True, metavar="LANG", help="target language")
    parser.add_argument(
        "--accessible", type=int, metavar="N", help="words that count as heard; default: all"
    )
    parser.add_argument(
        "--prefix", default="", metavar="TEXT", help="translation that was accepted before"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override a key of the configuration, e.g. policy.border_margin=0; repeatable",
    )  # fmt: skip
    parser.add_argument("--engine", choices=ENGINES, default="transformers")
    parser.add_argument(
        "--figure", type=Path, metavar="STEM", help="draw it to STEM.png and STEM.svg"
    )
    arguments = parser.parse_args(argv)
    config = load_config(arguments.config, parse_overrides(arguments.overrides))
    source, target = language(config.source_language), language(arguments.target)
    words = arguments.text.split()
    accessible = len(words) if arguments.accessible is None else arguments.accessible
    if not words or not 0 <= accessible <= len(words):
        parser.error(f"--accessible {accessible}: the text has {len(words)} words")
    readout = head_set_for(config, source, target).readout(config.policy.top_k)
    model = config.models.translation
    located = model.model_copy(update={"path": str(locate_one(model)), "revision": None})
    with open_reader(arguments.engine, located, readout.heads) as loaded:
        found = explain(
            loaded.reader,
            loaded.tokenizer,
            PromptBuilder(loaded.tokenizer, source.name, target.name),
            readout,
            build_policy(config.policy, single=True),
            words,
            accessible,
            arguments.prefix,
            spaced=target.spaced,
            max_tokens=config.max_draft_tokens,
        )
    _print(found)
    if arguments.figure:
        title = f"{model.path}, {source.code}-{target.code}, {arguments.config}"
        for path in reconstruction(found, title, arguments.figure):
            print(f"figure  {path}")
    return 0


def export_command(argv: Sequence[str]) -> int:
    """``alignatt-calibrate export``."""
    parser = argparse.ArgumentParser(
        prog="alignatt-calibrate export",
        description="Write pairs with their gold alignments as JSON lines, e.g. generated ones.",
    )
    parser.add_argument(
        "--pairs", required=True, metavar="SOURCE", help="micro:N[:SEED], or a file"
    )
    parser.add_argument("--direction", required=True, metavar="SRC-TGT", help="e.g. en-de")
    parser.add_argument("output", type=Path, metavar="FILE.jsonl")
    arguments = parser.parse_args(argv)
    codes = arguments.direction.split("-")
    if len(codes) != 2:
        parser.error(f"--direction {arguments.direction}: expected SOURCE-TARGET such as en-de")
    if arguments.output.suffix != ".jsonl":
        raise PairsError(f"{arguments.output}: JSON lines are written to a file named *.jsonl")
    pairs = read_pairs(arguments.pairs, language(codes[0]), language(codes[1]))
    write_pairs(pairs, arguments.output)
    print(f"{len(pairs.pairs)} pairs written to {arguments.output}")
    return 0


def unite_command(argv: Sequence[str]) -> int:
    """``alignatt-calibrate unite``."""
    parser = argparse.ArgumentParser(
        prog="alignatt-calibrate unite",
        description="Make one head set for several directions of a model: the heads with the "
        "highest mean Translation Score.",
    )
    parser.add_argument("sets", nargs="+", metavar="SET", help="head sets, names or paths")
    parser.add_argument("--keep", type=int, default=8, metavar="K", help="heads to keep; 8")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.json")
    arguments = parser.parse_args(argv)
    contents = []
    for name in arguments.sets:
        try:
            path = find_resource("head_sets", name, (".json",))
            contents.append(json.loads(path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError) as error:
            raise HeadSetError(f"{name}: {error}") from None
    united = unite(contents, arguments.keep)
    write(arguments.output, united)
    heads = "  ".join(f"{h['layer']},{h['head']} {h['ts']:.3f}" for h in united["heads"])
    print(f"{united['direction']}: {heads}\nwritten to {arguments.output}")
    return 0


def _print(found: Reconstruction) -> None:
    heard = " ".join(found.source[: found.accessible])
    rest = " ".join(found.source[found.accessible :])
    print(f"source  {heard} | {rest}")
    shown = "".join(token.text for token in found.tokens if token.emitted).strip()
    dropped = "".join(token.text for token in found.tokens if not token.emitted).strip()
    print(f"draft   {found.accepted_text} > {shown} | {dropped}   ({found.reason.value})")
    print(f"{'word':<16}{'peak':<16}" + "".join(f"{name:<22}" for name in PROVENANCE).rstrip())
    for word in found.words:
        peak = "-" if word.peak is None else found.source[word.peak]
        shares = "".join(f"{f'{100 * share:.0f} %':<22}" for share in word.provenance)
        print(f"{word.text:<16}{peak:<16}{shares}".rstrip())


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "explain": explain_command,
    "export": export_command,
    "unite": unite_command,
}
