"""Measure the cost of attention capture and early stop.

It reports milliseconds per token of the embedded model and of a model of 200 M parameters. All
engines are paired in one run. Every vLLM engine runs in eager and in compiled mode:
  transformers eager          all attention matrices are materialized
  transformers sdpa qk-fast   fused attention; the required rows are recomputed
  vllm plain                  without the capture worker
  vllm capture                with rows of 8 heads for every draft
  vllm capture + early stop   also with the gate in the engine, which accepts all tokens here
cold: no part of the prompt is in the prefix cache. warm: all full blocks are, as in a stream.
The prompts have 60, 180 and 420 tokens, and half of them have an accepted prefix. Drafts have 16
to 20 tokens and never end early. All engines are started several times, because two
processes of the same engine differ by a few percent.

To measure how many speakers a machine can serve, use `alignatt doctor --speakers`.

Examples:
  run everything, which takes about an hour on two free cores:
    python -m lab.bench --output outputs/bench
  do a test run of some minutes:
    python -m lab.bench --output outputs/bench --quick

output: OUT/engine.json

exit status: 0 success; 1 a measurement failed; 2 nothing was started
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.utils import logging

from alignatt_agent.cli import report_errors
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.config.command_line import shared_options
from lab import commands
from lab.bench import contenders
from lab.bench.contenders import Size
from lab.bench.rounds import Nonces, bench_prompts, percentages, race, race_figures
from lab.results_pages.__main__ import PAGES, markdown


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench", __doc__)
    add = parser.add_argument
    shared_options(parser, output={"required": True})
    text = "run a quick test with fewer rounds and without the model of 200 M parameters"
    add("--quick", action="store_true", help=text)
    return parser


def engine_report(folder: Path, quick: bool) -> dict[str, Any]:
    """Measure the embedded model and a model of 200 M parameters, kept in ``folder``."""
    torch.set_num_threads(contenders.threads())
    sizes: dict[str, Any] = {}
    micro = contenders.micro()
    if quick:
        sizes[micro.name] = measure(micro, 6, 2, 0.2 * micro.seconds)
    else:
        for size in (micro, contenders.larger(folder)):
            sizes[size.name] = measure(size, 16, 4, size.seconds)
    return {
        **commands.machine(),
        "threads": torch.get_num_threads(),
        "quick": quick,
        "sizes": sizes,
    }


def measure(size: Size, number: int, starts: int, seconds: float, **some: Any) -> dict[str, Any]:
    """Compare contenders on ``number`` prompts, over several starts of their engines.

    ``some`` are ``engines`` and ``seams`` of ``contenders``, to select some of them.
    """
    # The vocabulary is large enough for prompts that no engine has seen.
    tokenizer = AutoTokenizer.from_pretrained(contenders.micro().model.path)
    prompts = bench_prompts(tokenizer, number)
    nonces = Nonces(len(tokenizer))
    races = []
    for start in range(starts):
        with contenders.contenders(size, **some) as listed:
            title = f"{size.name}: start {start + 1} of {starts}"
            races.append(race(listed, prompts[start::starts], nonces, seconds, title))
    figures = {
        "checkpoint": Path(size.model.path).name,
        "weight_bytes": weight_bytes(size.model),
        "dtype": size.model.dtype,
        "heads": size.heads,
        "prompts": [[p.name, len(p.prompt.token_ids), p.tokens] for p in prompts],
        "race": race_figures(races),
    }
    # The interval of a percentage is one over starts.
    if starts > 1:
        figures["percent"] = percentages(races)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    logging.disable_progress_bar()
    report = engine_report(arguments.output / "models", arguments.quick)
    commands.write_json(arguments.output / "engine.json", report)
    print(f"{report['device']}, {report['threads']} threads for every engine")
    for table in PAGES["pages"]["engine"]["tables"]:
        print(f"\n{table['title']}\n{markdown(table, report)}")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.bench", main))
