"""Measure what attention capture and early stop cost, and how many streams the engines hold.

engine: milliseconds per token of the embedded model and of one of 200 M parameters, all paired in
one run; every vLLM contender eager and compiled
  transformers eager          with all attention matrices materialised
  transformers sdpa qk-fast   fused attention, wanted rows recomputed
  vllm plain                  no capture worker
  vllm capture                rows of 8 heads with every draft
  vllm capture + early stop   and the gate inside the engine; here it never closes
cold: nothing of the prompt is in the prefix cache. warm: its whole blocks are, as in a stream.
The prompts are 60, 180 and 420 tokens long, half of them with an accepted prefix; drafts have 16
to 20 tokens and never end by themselves. All engines are started several times, since two
processes of the same engine differ by some percent.

streams: many at once on the same engines; each has to emit what it emits alone. With --paced the
audio comes by the clock; lag is the time from the end of a chunk's audio to its emission.

Examples:
  everything, about an hour on two free cores:
    python -m lab.bench --output outputs/bench
  some minutes, to see that it works:
    python -m lab.bench --output outputs/bench --quick
  how many speakers this machine keeps up with, and how late it is for more of them:
    python -m lab.bench --output outputs/bench --only streams --streams 1 2 4 8 16 32 --paced

writes OUT/engine.json, OUT/streams.json

exit status: 0 measured, and streams emit what they have to; 1 they do not, or something failed;
2 nothing was started
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.utils import logging

from alignatt_agent.cli import report_errors
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.doctor.config_checks import weight_bytes
from lab import commands
from lab.bench import contenders, streams
from lab.bench.contenders import Size
from lab.bench.rounds import Nonces, bench_prompts, percentages, race, race_figures
from lab.results_pages.__main__ import PAGES, markdown

PARTS = ("engine", "streams")


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench", __doc__)
    add = parser.add_argument
    shared_options(parser, output={"required": True})
    text = f"parts to run, of: {', '.join(PARTS)}; default all"
    add("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=text)
    text = "less of everything, and no model of 200 M parameters: to see that it works"
    add("--quick", action="store_true", help=text)
    group = parser.add_argument_group("streams")
    add = group.add_argument
    shared_options(
        group,
        config={"default": "micro-low"},
        target={"default": ["de", "it", "zh"]},
        devset={"default": Path("micro_models/devset")},
    )
    text = "how many at once, one number after the other; default %(default)s"
    add("--streams", type=int, nargs="+", default=[16], metavar="N", help=text)
    text = "deliver the audio by the clock and measure the lag of what is emitted"
    add("--paced", action="store_true", help=text)
    add("--seconds", type=float, default=30.0, help="of each; default %(default)s")
    return parser


def engine_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the embedded model and one of 200 M parameters, which is kept in OUT/models."""
    torch.set_num_threads(contenders.threads())
    quick, started = arguments.quick, time.monotonic()
    sizes = {"micro": measure(contenders.micro(), quick)}
    if not quick:
        sizes["larger"] = measure(contenders.larger(arguments.output / "models"), quick)
    return {
        **commands.machine(),
        "threads": torch.get_num_threads(),
        "quick": quick,
        "row": "predicting",
        "sizes": sizes,
        "seconds": time.monotonic() - started,
    }


def measure(size: Size, quick: bool) -> dict[str, Any]:
    """Race all contenders on a model, over several starts of their engines."""
    tokenizer = AutoTokenizer.from_pretrained(contenders.micro().model.path)
    prompts, nonces = bench_prompts(tokenizer, 6 if quick else 16), Nonces(len(tokenizer))
    starts, seconds, races = 2 if quick else 4, size.seconds * (0.2 if quick else 1), []
    for start in range(starts):
        with contenders.contenders(size) as listed:
            title = f"{size.name}: start {start + 1} of {starts}"
            races.append(race(listed, prompts[start::starts], nonces, seconds, title))
    return {
        "checkpoint": Path(size.model.path).name,
        "weight_bytes": weight_bytes(size.model),
        "dtype": size.model.dtype,
        "heads": size.heads,
        "prompts": [[p.name, len(p.prompt.token_ids), p.tokens] for p in prompts],
        "turns": [found.turns for found in races],
        "race": race_figures(races),
        "percent": percentages(races),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    logging.disable_progress_bar()
    if arguments.quick:
        arguments.target, arguments.streams = arguments.target[:1], arguments.streams[:1]
        arguments.seconds = 10.0
    if "engine" in arguments.only:
        report = engine_report(arguments)
        commands.write_json(arguments.output / "engine.json", report)
        print(f"{report['device']}, {report['threads']} threads for every contender")
        for table in PAGES["pages"]["engine"]["tables"]:
            print(f"\n{table['title']}\n{markdown(table, report)}")
    good = "streams" not in arguments.only or streams.measure(arguments)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.bench", main))
