"""Compare attention rows that were captured in vLLM with those of Transformers.

Every model is served by vLLM in every mode and type, once with the worker that captures rows and
once without this worker. Both receive the same requests in the same order:
  alone      one prompt at a time, with an empty prefix cache
  batched    all prompts in one batch, some of them without rows
  prefix     prompts whose start is in the prefix cache
  chunked    prompts that are longer than a step

Rows of the drafted ids are then computed with Transformers (eager attention,
teacher-forced), in the same type and in float32. Bounds:
  float32    max |dA| <= 1e-4, and every argmax is the same
             Log-probabilities are compared first: if those of the same tokens differ by more
             than 0.01, vLLM and Transformers compute different functions (in vLLM the window of
             cohere2 is one position wider; olmoe is not clipped), and the rows are correct.
             apertus exceeds the bound (6e-4): vLLM keeps constants of its activation in bfloat16
  bfloat16   on the trained model: the same gate decisions if rounding has no influence, that is, if
             Transformers agrees with itself (eager, fused, float32); and
             mean |dA| <= 4e-4, or at most the noise floor: the difference between Transformers in
             bfloat16 and in float32
  always     the same token ids and bit-identical log-probabilities without capture

Mode "transformers" compares Transformers' fused attention (SDPA with qk-fast) with eager attention.

Examples:
  run the whole matrix:
    python -m lab.parity --output outputs/parity
  run one model, only in eager float32:
    python -m lab.parity --output outputs/parity --only qwen3 --quick

The results are written to OUT/parity.json, and the random models to OUT/models.

exit status: 0 success; 1 a bound is exceeded or an engine failed; 2 failure before the start
"""

import argparse
import sys
from collections.abc import Sequence

from transformers.utils import logging

from alignatt_agent.cli import report_errors
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.engine.options import engine_environment, on_cpu
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
    add("--quick", action="store_true", help="run only the eager mode in float32")
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
