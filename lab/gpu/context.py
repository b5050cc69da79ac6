"""What every part is told."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return int(answer.stdout.split()[0]) << 20


Result = Mapping[str, Any]
