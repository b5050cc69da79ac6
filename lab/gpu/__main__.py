"""Measure exactness of attention rows, speed and memory on a GPU.

The models have the published dimensions of the real models, and random weights. Every part runs in
its own process with a time limit, and writes OUT/PART.json and OUT/PART.log. If a part fails, the
others still run. When the command is run again, it skips parts that succeeded. With --minutes, it
starts no part that may not end in time. OUT/results.tar.xz contains all JSON files and logs.

Examples:
  run all parts on a machine with one GPU:
    python -m lab.gpu --output outputs/gpu
  run for at most nine minutes:
    python -m lab.gpu --output outputs/gpu --minutes 9
  run one part again:
    python -m lab.gpu --output outputs/gpu --only parity-full-v2 --again
  test the script on a CPU with small models (takes minutes):
    python -m lab.gpu --output outputs/gpu-self-test --self-test

exit status: 0 every part succeeded; 1 a part failed; 3 the time is over and parts remain
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import commands
from lab.gpu.parts import PARTS, Context, Part

LIMIT_S = 470
"""Time limit of a part: commands on a shared machine are often limited to ten minutes."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    listed = "\n".join(f"  {part.name:22} {part.what}" for part in PARTS)
    parser = commands.parser("lab.gpu", f"{__doc__}\nparts\n{listed}")
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="OUT", help="folder of the results")
    names = [part.name for part in PARTS]
    add("--only", nargs="+", choices=names, metavar="PART", help="parts to run (listed below)")
    add("--again", action="store_true", help="also run parts that have succeeded before")
    add("--minutes", type=float, default=1e9, help="time limit: start no part that may end later")
    text = "test the script on a CPU with small models; the figures are meaningless"
    add("--self-test", action="store_true", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    context = Context(arguments.output.resolve(), arguments.self_test)
    context.output.mkdir(parents=True, exist_ok=True)
    differences = _differences()
    if differences:  # every file records them
        print("\n  ".join(["different from the pinned versions:", *differences]), file=sys.stderr)
    usual = [part.name for part in PARTS if part.tested or not context.self_test]
    status, begin = 0, time.monotonic()
    for part in PARTS:
        if part.name not in (arguments.only or usual):
            continue
        if _read(context.output / f"{part.name}.json").get("ok") and not arguments.again:
            print(f"{part.name}: kept", flush=True)
            continue
        left = 60 * arguments.minutes - (time.monotonic() - begin)
        if left < min(part.seconds * 1.2, LIMIT_S):
            print(f"{part.name}: not started, {left:.0f} s remain", flush=True)
            status = max(status, 3)
            continue
        # Two cores of a CPU are slow.
        limit = 3 * LIMIT_S if context.self_test else LIMIT_S
        document = _run(part, context, min(limit, left), differences)
        print(f"{part.name}: {document['summary']} ({document['seconds']:.0f} s)", flush=True)
        if not document["ok"]:
            status = 1
        _pack(context.output)
    return status


def _differences() -> list[str]:
    """Name installed packages that do not satisfy pyproject.toml."""
    from alignatt_agent.doctor.machine_checks import check_versions, look_around

    checks = check_versions(look_around())
    return [f"{check.name}: {check.result}" for check in checks if check.status == "FAIL"]


def _run(part: Part, context: Context, limit: float, differences: list[str]) -> dict[str, Any]:
    """Run a part in its own process and write its result."""
    path = context.output / f"{part.name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "lab.gpu.inside", part.function, json.dumps(part.options)]
    command += [part.name, str(context.output)]
    if context.self_test:
        command.append("self-test")
    variables = {**os.environ, **part.environment}
    if context.self_test:
        variables.pop("VLLM_USE_V2_MODEL_RUNNER", None)  # a CPU has the first one only
    begin = time.monotonic()
    with (context.output / f"{part.name}.log").open("w") as log:
        problem = _wait(command, variables, log, limit)
    outcome = _read(path)
    # What the part itself reports says more than its exit status.
    problem = outcome.get("problem", "") or problem
    document = {
        "part": part.name,
        "what": part.what,
        "ok": not problem,
        "summary": f"FAILED: {problem}" if problem else outcome.get("summary", "ok"),
        "seconds": round(time.monotonic() - begin, 1),
        "self_test": context.self_test,
        **commands.machine(),
        "unpinned": differences,
        "environment": dict(part.environment),
        "result": outcome.get("result"),
    }
    commands.write_json(path, document)
    return document


def _wait(command: list[str], variables: dict[str, str], log: Any, limit: float) -> str:
    """Run a command to its end or its limit; return the problem, if any."""
    # Its own session, so that hanging engines end with it.
    process = subprocess.Popen(
        command, stdout=log, stderr=log, env=variables, start_new_session=True
    )
    try:
        exit_status = process.wait(limit)
        return f"exit status {exit_status}" if exit_status else ""
    except subprocess.TimeoutExpired:
        return f"not finished after {limit:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


def _pack(output: Path) -> None:
    with tarfile.open(output / "results.tar.xz", "w:xz") as archive:
        for path in sorted([*output.glob("*.json"), *output.glob("*.log")]):
            archive.add(path, path.name)


if __name__ == "__main__":
    sys.exit(main())
