"""The checkpoints of a configuration, and which of them share an engine."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from alignatt_agent.config.errors import Strict


class ModelConfig(Strict):
    """One checkpoint and how its engine runs.

    Attributes:
        path: id on the Hugging Face hub, or a directory (relative ones are looked up in the
            working directory and in the checkout).
        revision: commit of a hub id; pin it.
        dtype: computation type of the engine; ``float16`` for GPUs older than Ampere.
        engine: further arguments of vLLM's ``EngineArgs``: device limits.
    """

    path: str = Field(min_length=1)
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "auto"
    engine: dict[str, Any] = Field(default_factory=dict)


class ModelsConfig(Strict):
    """The three checkpoints of the cascade."""

    asr: ModelConfig
    aligner: ModelConfig
    translation: ModelConfig

    @property
    def asr_is_translation(self) -> bool:
        """Whether the translation model hears with its own audio tower, in the same engine."""
        asr, translation = self.asr, self.translation
        return (asr.path, asr.revision) == (translation.path, translation.revision)

    def side_by_side(self, streams: int) -> ModelsConfig:
        """Return the same models in engines that take at least so many requests at once."""
        changed = {}
        for role in type(self).model_fields:
            model: ModelConfig = getattr(self, role)
            room = max(streams, model.engine.get("max_num_seqs", 0))
            changed[role] = model.model_copy(
                update={"engine": {**model.engine, "max_num_seqs": room}}
            )
        return self.model_copy(update=changed)

    @property
    def engine_roles(self) -> tuple[str, ...]:
        """The roles that have an engine of their own."""
        roles = tuple(type(self).model_fields)
        return roles[1:] if self.asr_is_translation else roles
