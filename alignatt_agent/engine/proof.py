"""Store which modes of the translation engine ``doctor.prove`` has verified on this machine."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.cache_folders import cache_folder
from alignatt_agent.config.checkpoints import fingerprint
from alignatt_agent.config.models import SHARE
from alignatt_agent.machine.device import device
from alignatt_agent.machine.packages import versions

EAGER = "eager"
_FULL = {"enforce_eager": False, "compilation_config": {"cudagraph_mode": "FULL_AND_PIECEWISE"}}
GPU_MODES: Mapping[str, Mapping[str, Any]] = {
    EAGER: {"enforce_eager": True},
    "piecewise": {"enforce_eager": False, "compilation_config": {"cudagraph_mode": "PIECEWISE"}},
    "full": _FULL,
    "full, FlashAttention": {**_FULL, "attention_backend": "FLASH_ATTN"},
}
"""vLLM's arguments by mode; all other modes are compared with the first mode."""

CPU_MODES = {EAGER: GPU_MODES[EAGER], "compiled": {"enforce_eager": False}}
MODES = {**GPU_MODES, **CPU_MODES}

_WITHOUT_EFFECT = ("enforce_eager", "max_model_len", SHARE)
"""Engine arguments that do not change rows, so a verdict is also valid with other values."""


def subject(model: ModelConfig, heads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return everything that can change rows; a verdict is valid only for an equal subject."""
    path = Path(model.path)
    checkpoint = fingerprint(path) if path.is_dir() else f"{path}@{model.revision}"
    engine = {key: value for key, value in model.engine.items() if key not in _WITHOUT_EFFECT}
    return {
        "device": device(),
        "versions": versions(),
        "builds": builds(),
        "checkpoint": checkpoint,
        "dtype": model.dtype,
        "heads": [list(head) for head in heads],
        "engine": engine,
    }


@cache
def builds() -> list[str]:
    """Identify the running code: different builds of vLLM or torch may have the same version."""
    import torch
    import vllm

    ours = Path(__file__).parent
    return [torch.version.git_version, fingerprint(Path(vllm.__path__[0])), fingerprint(ours)]


def verdict_file(about: Mapping[str, Any]) -> Path:
    """Return the file of the verdict on a subject, in the user's cache folder."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "verdicts" / f"{digest}.json"


def write(about: Mapping[str, Any], modes: Mapping[str, Mapping[str, Any]]) -> Path:
    """Store a verdict: each mode's ``ms`` per token, and the ``problems`` of rejected modes."""
    path = verdict_file(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"about": about, "modes": modes}, indent=1) + "\n", encoding="utf-8")
    return path


def fastest(about: Mapping[str, Any]) -> str | None:
    """Return the fastest verified mode, or ``None`` without a verdict on an equal subject."""
    try:
        verdict = json.loads(verdict_file(about).read_text(encoding="utf-8"))
        ms_by_mode: dict[str, float] = {}
        for name, mode in verdict["modes"].items():
            if not mode["problems"]:
                ms_by_mode[name] = mode["ms"]
        # All modes are compared with the eager mode, so a verdict without it proves nothing.
        if EAGER not in ms_by_mode or not ms_by_mode.keys() <= MODES.keys():
            return None
        if verdict["about"] != about:
            return None
        return min(ms_by_mode, key=ms_by_mode.__getitem__)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # There is no verdict, or its file was damaged.
        return None


def in_mode(model: ModelConfig, mode: str) -> dict[str, Any]:
    """Return vLLM's arguments for a model in a mode; configured arguments are kept."""
    written = {key: value for key, value in model.engine.items() if key != "enforce_eager"}
    return {**MODES[mode], **written}


def chosen(model: ModelConfig, heads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the arguments of the fastest verified mode, or of eager mode without a verdict."""
    mode = fastest(subject(model, heads))
    if mode is None and heads:
        why = "decodes eagerly: no faster mode is verified here. `alignatt prove CONFIG`"
        gain = "verifies and times all modes; CUDA graphs may cut the time per token to a quarter"
        print(model.path, why, gain, file=sys.stderr, flush=True)
    return in_mode(model, mode or EAGER)
