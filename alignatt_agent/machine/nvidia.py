"""List the NVIDIA GPUs of this machine, as `nvidia-smi` reports them."""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from alignatt_agent.config.errors import ConfigError

GIB = 1 << 30

_FIELDS = (
    "name",
    "driver_version",
    "uuid",
    "mig.mode.current",
    "memory.free",
    "memory.total",
    "compute_cap",
)
"""Columns of the query, in the order of the parameters of ``_gpu``."""


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

    Raises:
        ConfigError: CUDA_VISIBLE_DEVICES names an unknown GPU, or CUDA_DEVICE_ORDER may select
            another GPU than the one that `nvidia-smi` lists at this position.
    """
    cards: dict[str, Gpu] = {}
    for row in _query():
        card = _gpu(*row)
        cards[row[_FIELDS.index("uuid")]] = card
    order = os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    # Equal GPUs are interchangeable, so their order does not matter.
    card_names = {card.name for card in cards.values()}
    if order != "PCI_BUS_ID" and len(card_names) > 1:
        raise ConfigError(f"CUDA_DEVICE_ORDER is {order}; expected PCI_BUS_ID")
    if not cards:
        return ()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(cards.values())
    selected: list[Gpu] = []
    for part in visible.split(","):
        label = part.strip()
        # CUDA ignores everything after the first invalid device.
        if label in ("", "-1"):
            break
        selected.append(_select(label, cards))
    return tuple(selected)


def _query() -> list[list[str]]:
    """Return the rows of `nvidia-smi` with all of ``_FIELDS``; none without the program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.split(", ") for line in answer.stdout.splitlines()]
    # Without a working driver, the output is an error message.
    return [row for row in rows if len(row) == len(_FIELDS)]


def _gpu(
    name: str, driver: str, uuid: str, mig: str, free: str, total: str, capability: str
) -> Gpu:
    """Parse a row of `nvidia-smi`; the memory of a partitioned GPU (MIG, vGPU) is unknown."""
    free_bytes = _mebibytes(free, mig)
    total_bytes = _mebibytes(total, mig)
    if (mig, total, platform.machine()) == ("[N/A]", "[N/A]", "aarch64"):
        # The GPU of a GB10 uses the host's memory.
        host = psutil.virtual_memory()
        free_bytes, total_bytes = host.available, host.total
    number = 0.0
    if capability.replace(".", "").isdigit():
        number = float(capability)
    return Gpu(name, driver, free_bytes, total_bytes, number)


def _mebibytes(text: str, mig: str) -> int:
    """Convert a number of MiB to bytes; 0 if it is unknown or the GPU is partitioned."""
    if mig == "Enabled" or not text.isdigit():
        return 0
    return int(text) << 20


def _select(label: str, cards: Mapping[str, Gpu]) -> Gpu:
    """Find the GPU in ``CUDA_VISIBLE_DEVICES`` by its index or the start of its UUID."""
    if label.startswith("MIG-"):
        return Gpu(label, "unknown", 0, 0)
    matches: list[Gpu] = []
    for index, (uuid, card) in enumerate(cards.items()):
        if label == str(index) or uuid.startswith(label):
            matches.append(card)
    if len(matches) != 1:
        listed = ", ".join(f"{index} or {uuid}" for index, uuid in enumerate(cards))
        raise ConfigError(f"CUDA_VISIBLE_DEVICES names {label!r}, but `nvidia-smi` lists {listed}")
    return matches[0]
