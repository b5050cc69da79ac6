"""Simultaneous speech translation with any decoder-only LLM, gated by the model's attention."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["AgentConfig", "AlignAttAgent", "__version__", "load_config"]


def __getattr__(name: str) -> Any:
    # Import on demand: every vLLM worker imports this package, but needs only its plugin.
    if name == "AlignAttAgent":
        from alignatt_agent.agent import AlignAttAgent

        return AlignAttAgent
    if name in ("AgentConfig", "load_config"):
        from alignatt_agent.config import agent_config

        return getattr(agent_config, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
