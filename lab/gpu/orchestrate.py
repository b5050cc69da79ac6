"""Runs the parts, each in a process of its own with a time limit, and keeps what they found."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from context import Context
from parts import PARTS, Part

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 470
"""Longest time of a part: one command on a borrowed machine often has ten minutes."""

EPILOG = """\
Every part runs in a process of its own, with a time limit, and writes OUT/PART.json and
OUT/PART.log; one that fails leaves the rest. The same command goes on where it was: what has
succeeded is not run again, and with --minutes it stops before a part that may not end in time.
OUT/results.tar.xz holds all JSON files and logs, to carry home as one file.

examples
  everything, on a machine with one GPU:
    lab/gpu/run --output outputs/gpu
  in pieces of nine minutes:
    lab/gpu/run --output outputs/gpu --minutes 9
  one part again, with other versions of torch or vLLM than the pinned ones:
    lab/gpu/run --output outputs/gpu --only parity-full-v2 --again --unpinned
  see that the script runs, on a CPU with tiny dimensions (some minutes):
    lab/gpu/run --output outputs/gpu-self-test --self-test

exit status: 0 every part that was run succeeded; 1 one failed; 2 nothing was started;
3 the time was up, and parts are left
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="lab/gpu/run",
        description="Measure on a GPU, on the published dimensions of the real models with random "
        "weights: are the rows right, how fast, how much memory.",
        epilog=EPILOG + "\nparts\n" + "\n".join(f"  {x.name:22} {x.what}" for x in PARTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = [part.name for part in PARTS]
    add("--output", type=Path, required=True, metavar="OUT", help="folder of the results")
    add("--only", nargs="+", choices=names, metavar="PART", help="parts to run, see below")
    add("--again", action="store_true", help="run what has succeeded before, too")
    add("--minutes", type=float, default=1e9, help="start nothing that may end later than this")
    text = "go on with other versions than the pinned ones; every JSON file records it"
    add("--unpinned", action="store_true", help=text)
    text = "on a CPU, with tiny dimensions: the script runs, figures mean nothing"
    add("--self-test", action="store_true", help=text)
    add("--part", choices=names, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    sys.path.insert(0, str(ROOT))
    output: Path = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    context = Context(output, arguments.self_test)
    if arguments.part:
        return _inside(next(part for part in PARTS if part.name == arguments.part), context)
    differences = _differences(context)
    if differences and not arguments.unpinned:
        print(
            "other versions than the pinned ones; --unpinned goes on all the same", file=sys.stderr
        )
        print("\n".join(f"  {line}" for line in differences), file=sys.stderr)
        return 2
    chosen = [part for part in PARTS if part.name in (arguments.only or names(context))]
    status, begin = 0, time.monotonic()
    for part in chosen:
        kept = _read(output / f"{part.name}.json")
        if kept.get("ok") and not arguments.again:
            print(f"{part.name}: kept", flush=True)
            continue
        left = 60 * arguments.minutes - (time.monotonic() - begin)
        if left < min(part.seconds * 1.2, LIMIT_S):
            print(f"{part.name}: not started, {left:.0f} s are left", flush=True)
            status = max(status, 3)
            continue
        # Two cores of a CPU are slow, and nobody waits for them.
        limit = 3 * LIMIT_S if context.self_test else LIMIT_S
        found = _outside(part, context, min(limit, left), differences)
        print(f"{part.name}: {found['summary']} ({found['seconds']:.0f} s)", flush=True)
        status = 1 if not found["ok"] else status
        _pack(output)
    return status


def names(context: Context) -> list[str]:
    """Return the parts that run when none are named."""
    return [part.name for part in PARTS if part.tested or not context.self_test]


def _differences(context: Context) -> list[str]:
    """Say which installed packages are not what pyproject.toml asks for."""
    from alignatt_agent.doctor.machine_checks import check_versions, look_around

    bad = [
        check for check in check_versions(look_around(import_torch=False)) if check.status == "FAIL"
    ]
    return [f"{check.name}: {check.found}" for check in bad]


def _outside(part: Part, context: Context, limit: float, differences: list[str]) -> dict[str, Any]:
    """Run a part in a process of its own and write down what came of it."""
    from alignatt_agent.config.machine import device, versions

    path = context.output / f"{part.name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("run")), "--part", part.name]
    command += ["--output", str(context.output)] + ["--self-test"] * context.self_test
    folders = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, **part.environment, "PYTHONPATH": os.pathsep.join(folders)}
    if context.self_test:
        variables.pop("VLLM_USE_V2_MODEL_RUNNER", None)  # a CPU has the first one only
    begin, problem = time.monotonic(), ""
    with (context.output / f"{part.name}.log").open("w") as log:
        # A session of its own, so that engines that hang end with it.
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=variables, start_new_session=True
        )
        try:
            if process.wait(limit):
                problem = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"not done after {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    found = _read(path)
    problem = found.get("problem", "") or problem
    document = {
        "part": part.name,
        "what": part.what,
        "ok": not problem,
        "summary": found.get("summary", "ok") if not problem else f"FAILED: {problem}",
        "seconds": round(time.monotonic() - begin, 1),
        "self_test": context.self_test,
        "device": device(),
        "versions": versions(),
        "unpinned": differences,
        "environment": dict(part.environment),
        "result": found.get("result"),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def _inside(part: Part, context: Context) -> int:
    """Measure; what is found goes to the file of the part."""
    path = context.output / f"{part.name}.json"
    try:
        result = dict(part.run(context))
    except Exception as error:  # whatever it is, the next part is worth running
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        path.write_text(json.dumps({"problem": text}), encoding="utf-8")
        return 1
    # What was measured is kept where a bar is missed, too.
    found = {"summary": result.pop("summary", "ok"), "problem": result.pop("problem", "")}
    path.write_text(json.dumps({**found, "result": result}), encoding="utf-8")
    return 0


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _pack(output: Path) -> None:
    with tarfile.open(output / "results.tar.xz", "w:xz") as archive:
        for path in sorted([*output.glob("*.json"), *output.glob("*.log")]):
            archive.add(path, path.name)
