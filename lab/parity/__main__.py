"""Compare attention rows that were captured in vLLM with those of Transformers.

vLLM serves every model in every mode and data type, once with the worker that captures rows and
once without it. Each engine receives the same requests in the same order:
  alone      one prompt at a time, without caching
  batched    all prompts in one batch, some of them without rows
  prefix     prompts whose beginning is in the prefix cache
  chunked    prompts longer than the token budget of a step

Transformers then computes the rows of the ids that vLLM drafted (eager attention, teacher forcing),
in the same data type and in float32. Bounds:
  float32    max |dA| <= 1e-4, and every argmax is the same.
             Log-probabilities are compared first. If those of the same tokens differ by more than
             0.01, vLLM and Transformers compute different functions (in vLLM, the window of
             cohere2 is one position wider, and olmoe is not clipped). Rows are then not compared.
             apertus exceeds the bound (6e-4): vLLM keeps constants of its activation in bfloat16.
             qwen2.5-coder exceeds the bound (5e-4): in its layer 0, float32 is too coarse.
  bfloat16   The trained model makes the same gate decisions, except where rounding decides
             (Transformers in eager mode, fused mode and float32 disagree), and
             mean |dA| is at most 4e-4 or sqrt(2) times the noise floor, which is the difference
             between Transformers in bfloat16 and in float32. Two engines that round
             independently differ by this factor more than each differs from float32.
  always     Token ids and log-probabilities are bit-identical with and without capture.

Mode "transformers" compares Transformers' fused attention (SDPA with qk-fast) with eager attention.

Examples:
  run all comparisons:
    python -m lab.parity --output outputs/parity
  run one model in eager float32 only:
    python -m lab.parity --output outputs/parity --only qwen3 --quick

output: OUT/parity.json, and the random and converted models under OUT/models

exit status: 0 success; 1 a bound is exceeded or an engine failed; 2 failure before the start
"""

import argparse
import sys
from collections.abc import Sequence

from transformers.utils import logging

from alignatt_agent.cli import report_errors
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.engine.environment import engine_environment, on_cpu
from lab import commands
from lab.parity.cases import CUDA_MODES, DTYPES, MODES, OTHERS, SUBJECTS, subject
from lab.parity.cells import SEAM, Cell
from lab.parity.run import measure
from lab.results_pages.__main__ import PAGES, markdown


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.parity", __doc__)
    add = parser.add_argument
    shared_options(parser, output={"required": True})
    text = f"models: {', '.join(SUBJECTS)} (default: these); {', '.join(OTHERS)}"
    names, common = SUBJECTS + OTHERS, list(SUBJECTS)
    add("--only", nargs="+", choices=names, default=common, metavar="MODEL", help=text)
    add("--quick", action="store_true", help="run only eager mode in float32")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    logging.disable_progress_bar()
    with engine_environment():
        cpu = on_cpu()
    modes = dict(MODES if cpu else CUDA_MODES)
    if arguments.quick:
        modes = {"eager": modes["eager"]}
    dtypes = DTYPES[:1] if arguments.quick else DTYPES
    chosen = [subject(name, arguments.output / "models") for name in arguments.only]
    cells: list[Cell] = []
    for cell in measure(chosen, modes, dtypes, "cpu" if cpu else "cuda"):
        cells.append(cell)
        print(f"{cell.name}: {'; '.join(cell.problems) or 'ok'}", file=sys.stderr, flush=True)
    document = {
        **commands.machine(),
        "cells": [cell.summary() for cell in cells if cell.mode != SEAM],
        "seams": [cell.summary() for cell in cells if cell.mode == SEAM],
    }
    path = arguments.output / "parity.json"
    commands.write_json(path, document)
    print(markdown(PAGES["pages"]["parity"]["tables"][0], document))
    missed = sum(len(cell.problems) for cell in cells)
    if missed:
        print(f"\n{missed} bounds are exceeded, see above; results are in {path}", file=sys.stderr)
        return 1
    print(f"\nall {len(document['cells'])} cells pass; results are in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.parity", main))
