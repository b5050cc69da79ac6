"""Configure the checkpoints of the cascade and the arguments of their engines."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from alignatt_agent.config.errors import Strict

SHARE = "gpu_memory_utilization"
"""vLLM's argument for the share of GPU memory that an engine reserves."""

AUTO = "auto"
"""Value that requests an automatic choice of an engine argument for this machine."""

DEFAULT_SHARE = 0.92
"""vLLM's default share, used if a configuration sets none."""


class ModelConfig(Strict):
    """One checkpoint and the arguments of its engine.

    Attributes:
        path: id on the Hugging Face hub, or a directory (a relative path is looked up in the
            working directory and in the checkout).
        revision: pinned commit of a hub id.
        smaller: checkpoint (``ID`` or ``ID@REVISION``) that replaces ``models.asr`` on a GPU with
            too little memory, if the memory is planned (``gpu_memory_utilization: auto``).
        dtype: computation type of the engine; use ``float16`` on GPUs older than Ampere.
        runtime: ``vllm``, or ``ctranslate2`` for Whisper in the format of CTranslate2, on a CPU.
        quantize: ``int8`` makes `alignatt fetch` convert the checkpoint to 8-bit weights and
            activations, the fastest form on a CPU (docs/results/real.md).
        gguf: file of the checkpoint to convert, if the weights are in GGUF format.
        engine: further arguments of the runtime: vLLM's ``EngineArgs``, or those of
            ``ctranslate2.models.Whisper``.
    """

    path: str = Field(min_length=1)
    revision: str | None = None
    # Keys that were added later are left out if they have their defaults. The digests of earlier
    # runs do not contain them.
    smaller: str | None = Field(default=None, exclude_if=lambda value: value is None)
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "auto"
    runtime: Literal["vllm", "ctranslate2"] = Field(
        "vllm", exclude_if=lambda value: value == "vllm"
    )
    quantize: Literal["int8"] | None = Field(None, exclude_if=lambda value: value is None)
    gguf: str | None = Field(None, exclude_if=lambda value: value is None)
    engine: dict[str, Any] = Field(default_factory=dict)

    @field_validator("engine")
    @classmethod
    def _sizes_are_numbers(cls, engine: dict[str, Any]) -> dict[str, Any]:
        # Prompts are checked against these arguments, so forms that only vLLM understands, such as
        # -1 and 8k, are refused. ``null`` stands for the default.
        checked = dict(engine)
        for key in ("max_model_len", "max_num_seqs"):
            value = checked.get(key)
            if value is None:
                checked.pop(key, None)
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{key} must be a whole number above 0, or null for the default")
        return checked

    @model_validator(mode="after")
    def _gguf_is_converted(self) -> ModelConfig:
        if self.gguf is not None and self.quantize is None:
            raise ValueError("vLLM cannot read GGUF files on a CPU: set quantize to int8")
        return self

    def sizes(self) -> list[ModelConfig]:
        """Return this checkpoint and the smaller checkpoint, if any."""
        alone = self.model_copy(update={"smaller": None})
        if self.smaller is None:
            return [alone]
        path, _, revision = self.smaller.partition("@")
        smaller = alone.model_copy(update={"path": path, "revision": revision or None})
        return [alone, smaller]


class ModelsConfig(Strict):
    """The checkpoints of the cascade; the aligner is optional (see ``SpeechConfig.times``)."""

    asr: ModelConfig
    aligner: ModelConfig | None = None
    translation: ModelConfig

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles that have a model."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def asr_is_translation(self) -> bool:
        """Whether the translation model transcribes with its audio tower, in the same engine."""
        same_path = self.asr.path == self.translation.path
        return same_path and self.asr.revision == self.translation.revision

    @property
    def engine_roles(self) -> tuple[str, ...]:
        """Return the roles with their own vLLM engine."""
        if self.asr_is_translation or self.asr.runtime != "vllm":
            return tuple(role for role in self.roles if role != "asr")
        return self.roles


def written_shares(models: ModelsConfig) -> dict[str, float]:
    """Return the GPU memory share of every engine whose share is not ``auto``, by role."""
    shares: dict[str, float] = {}
    for role in models.engine_roles:
        share = getattr(models, role).engine.get(SHARE, DEFAULT_SHARE)
        if share != AUTO:
            shares[role] = float(share)
    return shares
