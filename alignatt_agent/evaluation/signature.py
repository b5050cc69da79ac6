"""What a score depends on: versions, checkpoints, configuration, device and data."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from alignatt_agent.config.checkpoints import is_embedded
from alignatt_agent.config.machine import device, versions
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.resolve import AgentChoice

MICRO_LABEL = "micro world: scores on the micro world only say that the machine works"


DEVICES = "devices"
"""Key of runs on a cluster: the device of each talk."""


def sign(choice: AgentChoice, devset: DevSet, target: str, paced: bool = False) -> dict[str, Any]:
    """Describe a run completely enough to repeat it.

    Args:
        choice: agent and configuration.
        devset: what is streamed.
        target: code of the language of the output.
        paced: whether the audio comes by the clock.
    """
    signature: dict[str, Any] = {
        "agent": f"{choice.cls.__module__}.{choice.cls.__qualname__}",
        "config": choice.name,
        "target": target,
        "versions": versions(),
        "device": device(),
        "devset": devset_digest(devset, target),
        "audio": audio_digest(devset),
        "latency": "CA as Simulstream defines it (backlog not counted); "
        + ("audio by the clock" if paced else "not paced"),
    }
    resolved = choice.resolved
    if resolved is None:
        digest = hashlib.sha256(choice.resolved_yaml(target).encode()).hexdigest()[:12]
        return {**signature, "config_sha256": digest}
    config, head_set = resolved.config, resolved.head_sets.get(target)
    signature |= {
        "direction": f"{config.source_language}-{target}",
        "config_sha256": config.digest(),
        "chunk_ms": config.chunk_ms,
        "models": resolved.identities(),
        "dtype": config.models.translation.dtype,
        "policy": config.policy_for(target).model_dump(),
    }
    if head_set is not None:
        signature["head_set"] = head_set.name + (" (provisional)" if head_set.provisional else "")
    if is_micro(choice):
        signature["label"] = MICRO_LABEL
    return signature


def sign_log(log: Path, devset: DevSet, target: str) -> dict[str, Any]:
    """Describe the scoring of a log whose run is not known."""
    return {
        "config": str(log),
        "target": target,
        "log_sha256": hashlib.sha256(log.read_bytes()).hexdigest()[:12],
        "versions": versions(),
        "device": device(),
        "devset": devset_digest(devset, target),
        "latency": "as logged; not known whether the run was paced",
    }


def is_micro(choice: AgentChoice) -> bool:
    """Whether any model of the run is an embedded one."""
    return choice.config is not None and is_embedded(choice.config.models)


def devset_digest(devset: DevSet, target: str) -> str:
    """Name what a score was computed on: size, and a hash of segmentation and references."""
    digest = hashlib.sha256()
    for path in (devset.segmentation, devset.references[target]):
        digest.update(path.read_bytes())
    talks = len(devset.talks)
    return f"{talks} talks, {len(devset.segments)} segments, sha256:{digest.hexdigest()[:12]}"


def audio_digest(devset: DevSet) -> str:
    """Hash of the recordings as they are streamed."""
    digest = hashlib.sha256()
    for talk in devset.talks:
        with talk.wav.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"{devset.seconds:.1f} s, sha256:{digest.hexdigest()[:12]}"
