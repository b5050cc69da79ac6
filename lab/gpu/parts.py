"""The measurements in order of importance, and their options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alignatt_agent.machine.nvidia import gpus

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """One run of the script."""

    output: Path
    self_test: bool

    @property
    def models(self) -> Path:
        """Folder for checkpoints and configurations."""
        folder = self.output / "models"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def engine(self, share: float, **more: Any) -> dict[str, Any]:
        """Return vLLM arguments, with a share of the GPU's memory where there is one."""
        return more if self.self_test else {"gpu_memory_utilization": share, **more}


def gpu_memory_used() -> int | None:
    """Bytes in use on the first GPU, by the driver; ``None`` without one."""
    return next((card.total - card.free for card in gpus()), None)


@dataclass(frozen=True)
class Part:
    """One measurement; ``--self-test`` runs those that are ``tested``."""

    name: str
    what: str
    function: str
    seconds: int
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    tested: bool = True


def _parity(mode: str, runner: int, title: str = "", tested: bool = False, **options: Any) -> Part:
    return Part(
        name=f"parity-{title}{mode}-v{runner}",
        what=f"rows against Transformers: {mode}, model runner V{runner}",
        function="lab.gpu.exactness:parity",
        seconds=100,
        options={"mode": mode, **options},
        environment={"VLLM_USE_V2_MODEL_RUNNER": str(runner - 1)},
        tested=tested,
    )


_FLASH = {"title": "flash-", "subject": "qwen3", "backend": "FLASH_ATTN"}
_BF16 = {"title": "bf16-", "subject": "gemma4", "dtypes": ("bfloat16",)}
_RACE = "lab.gpu.speed:race_all"
PARTS = (
    Part("versions", "machine, versions, imports", "lab.gpu.exactness:describe", 30),
    _parity("eager", 2),
    _parity("eager", 1, tested=True),
    _parity("piecewise", 2),
    _parity("full", 2),
    Part("bench-graphs", "ms per token with graphs: plain, rows, early stop, Transformers",
         _RACE, 400, {"engines": (0, 1, 4), "seams": ("eager", "sdpa")}),
    Part("cascade", "RTF, stages and memory with real dimensions", "lab.gpu.cascade:chunks", 400),
    Part("synchronisations", "host synchronizations per step, with rows and gate",
         "lab.gpu.speed:synchronisations", 120),
    _parity("full", 2, **_BF16),
    Part("kill-owner", "engine and memory after the owner is killed", "lab.gpu.teardown:kill", 90),
    Part("streams", "concurrent streams and their lag", "lab.gpu.cascade:streams", 450,
         tested=False),
    _parity("preempted", 2, tested=True),
    _parity("piecewise", 1),
    _parity("full", 1),
    _parity("eager", 2, **_FLASH),
    _parity("full", 2, **_FLASH),
    Part("bench-eager", "ms per token without graphs", _RACE, 200,
         {"engines": (2, 3), "seams": ()}, tested=False),
    _parity("eager", 2, **_BF16),
)  # fmt: skip
