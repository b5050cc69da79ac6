"""Check that an engine ends and frees its memory when its owner is killed."""

import json
import subprocess
import sys
import time
from typing import Any

import psutil

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.start import start_model
from lab.gpu.parts import Context, Result, gpu_memory_used
from lab.stand_ins import random_models

BAR_S = 3.0
"""Limit in seconds for the engine to end and its memory to be freed."""

PATIENCE_S = 30.0
SLACK = 64 << 20
"""Tolerance in bytes for the memory that the driver reports afterwards."""


def kill(context: Context) -> Result:
    """Kill a process that owns an engine, and wait until both have ended."""
    path = random_models.write("gemma4", context.models / "gemma4-tiny")
    before = gpu_memory_used()
    settings = {"path": str(path), "engine": context.engine(0.3, max_model_len=1024)}
    command = [sys.executable, "-m", "lab.gpu.teardown", json.dumps(settings)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    engines = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    held = gpu_memory_used()
    owner.kill()
    begin = time.monotonic()
    owner.wait()
    gone: dict[str, Any] = {"engine_s": None, "memory_s": None}
    while (spent := time.monotonic() - begin) < PATIENCE_S and None in gone.values():
        if gone["engine_s"] is None and not any(map(_runs, engines)):
            gone["engine_s"] = round(spent, 2)
        used = gpu_memory_used()
        # Without a GPU, memory is free as soon as the engine is gone.
        is_free = used is None or before is None or used <= before + SLACK
        if is_free and gone["engine_s"] is not None and gone["memory_s"] is None:
            gone["memory_s"] = round(time.monotonic() - begin, 2)
        time.sleep(0.05)
    late = [name for name, spent in gone.items() if spent is None or spent > BAR_S]
    return {
        **gone,
        "engines": len(engines),
        "gpu_memory": {"before": before, "held": held, "after": gpu_memory_used()},
        "problem": f"later than {BAR_S:.0f} s: {', '.join(late)}" if late else "",
        "summary": f"engine gone after {gone['engine_s']} s, memory after {gone['memory_s']} s",
    }


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def own(settings: dict[str, Any]) -> None:
    """Start an engine, print its processes, and wait to be killed."""
    served = start_model("translation", ModelConfig(**settings), ((0, 1), (2, 3)))
    print(*served.pids, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    own(json.loads(sys.argv[1]))
