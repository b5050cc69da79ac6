"""Shares of a GPU's memory that the engines of a configuration claim."""

from __future__ import annotations

from alignatt_agent.config.agent_config import ModelsConfig

SHARE = "gpu_memory_utilization"
"""The argument of vLLM that says it."""

DEFAULT_SHARE = 0.92
"""vLLM's own, where a configuration says nothing."""


def gpu_shares(models: ModelsConfig) -> dict[str, float]:
    """Return the share of every role with an engine; vLLM's default where none is written."""
    engines = {role: getattr(models, role).engine for role in models.engine_roles}
    return {role: float(engine.get(SHARE, DEFAULT_SHARE)) for role, engine in engines.items()}


def shares_are_written(models: ModelsConfig) -> bool:
    """Whether a configuration says how much of a GPU any of its engines takes."""
    return any(SHARE in getattr(models, role).engine for role in models.engine_roles)
