"""Describe the processor: its instruction set, and the cores that this process may use."""

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

_X86 = (
    ("amx_int8", "AMX"),
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx_vnni", "AVX-VNNI"),
    ("avx512f", "AVX-512 without VNNI"),
    ("avx2", "AVX2"),
)
_ARM = (("i8mm", "Armv8 i8mm"), ("asimddp", "Armv8 dot product"), ("asimd", "Armv8 NEON"))

_CPU_INFO = Path("/proc/cpuinfo")
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def instruction_set(cpu_info: Path = _CPU_INFO) -> str:
    """Return the most capable instruction set for integer products, e.g. ``AVX-512 VNNI``.

    Speeds of 8-bit models differ by a factor of ten between instruction sets, so every published
    figure of a CPU names it. The architecture is returned if no known set is found.
    """
    flags = {*_field(cpu_info, "flags").split(), *_field(cpu_info, "Features").split()}
    for flag, name in _X86 + _ARM:
        if flag in flags:
            return name
    return platform.machine()


def model_name(cpu_info: Path = _CPU_INFO) -> str:
    """Return the name of the processor; Arm processors report only their architecture."""
    return _field(cpu_info, "model name") or platform.machine()


def cores() -> int:
    """Return the number of threads that this process can run at the same time, at least 1.

    The number is limited by the CPU affinity (``taskset``, ``--cpuset-cpus``) and by the CPU quota
    of the control groups (``--cpus``). A quota of 1.5 cores allows one thread: with two threads,
    the kernel would stop both of them for a quarter of the time.
    """
    allowed = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    if quota is None:
        return allowed
    return max(1, min(allowed, math.floor(quota)))


def cpu_quota(own_cgroups: Path = _OWN_CGROUPS, cgroups: Path = _CGROUPS) -> float | None:
    """Return the smallest CPU quota of this process's control groups, in cores.

    Both versions of the kernel's interface are read. ``None`` means that there is no quota.
    """
    quotas: list[float] = []
    for folder in _cgroup_folders(own_cgroups, cgroups):
        quotas.extend(_quotas(folder))
    return min(quotas, default=None)


def _cgroup_folders(own_cgroups: Path, cgroups: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, and those of their ancestors."""
    for line in _read(own_cgroups).splitlines():
        _, controllers, path = line.split(":", 2)
        # Version 2 has no controllers in this file. In a container, its own group is the root.
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        group = root / path.lstrip("/")
        yield group
        for parent in group.parents:
            if parent.is_relative_to(root):
                yield parent


def _quotas(folder: Path) -> Iterator[float]:
    """Yield the quota of one control group in version 2 and version 1 of the interface."""
    limit = _read(folder / "cpu.max").split()
    if len(limit) == 2 and limit[0] != "max":
        yield int(limit[0]) / int(limit[1])
    quota = _read(folder / "cpu.cfs_quota_us").strip()
    period = _read(folder / "cpu.cfs_period_us").strip()
    if quota and period and int(quota) > 0:  # -1 means unlimited
        yield int(quota) / int(period)


def _field(cpu_info: Path, name: str) -> str:
    """Return the value of the first line ``name : value``, or an empty string."""
    for line in _read(cpu_info).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _read(path: Path) -> str:
    """Return the content of a file of the kernel, or an empty string if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
