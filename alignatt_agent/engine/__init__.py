"""vLLM engines: their life, and exact attention rows out of them."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "AttentionEngine":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    # On demand: each process of vLLM imports the plug-in, which is in this package.
    from alignatt_agent.engine.attention_engine import AttentionEngine

    return AttentionEngine
