"""Read the attention rows of all heads of a model in vLLM."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.types import AttentionRows, EngineError, Prompt
from alignatt_agent.types.engines import Readout

Head = tuple[int, int]


class Reader(Protocol):
    """An engine that returns the attention rows of a translation."""

    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return one teacher-forced row per token of ``token_ids`` after ``prompt``."""


DEFAULT_CONTEXT = 2048
"""Maximum length of a request, in tokens; a sentence of a talk needs a few hundred."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model whose attention rows can be read."""

    reader: Reader
    tokenizer: Any
    num_layers: int
    num_heads: int
    heads: tuple[Head, ...]  # by layer; a hybrid model has layers without attention
    max_context: int  # tokens
    engine: str  # name, version and computation type


@contextmanager
def open_reader(model: ModelConfig) -> Iterator[Loaded]:
    """Load a model that captures all heads, and unload it at the end."""
    from transformers import AutoConfig

    from alignatt_agent.engine.drafts import DraftEngine
    from alignatt_agent.engine.start import start_model
    from alignatt_agent.engine.transformers_engine import attention_layers

    path = str(locate_one(model))
    try:
        text = AutoConfig.from_pretrained(path).get_text_config()
    except (OSError, ValueError) as error:
        raise EngineError(f"translation model {path}: {error}") from error
    # vLLM's "auto" converts float32 to 16 bits, which moves the peaks of heads with flat attention.
    stored = str(getattr(text, "dtype", None) or "float32").removeprefix("torch.")
    dtype = stored if model.dtype == "auto" else model.dtype
    count = text.num_attention_heads
    every = tuple((layer, head) for layer in attention_layers(text) for head in range(count))
    context = min(
        DEFAULT_CONTEXT, int(model.engine.get("max_model_len", text.max_position_embeddings))
    )
    arguments = {
        # Queries of all heads are staged for a whole batch; short batches keep the buffer small.
        "max_model_len": context,
        "max_num_batched_tokens": context,
        "max_num_seqs": 1,
        "enable_prefix_caching": False,
        "dtype": dtype,
    }
    located = model.model_copy(update={"path": path, "revision": None})
    served = start_model("translation", located, every, **{**arguments, **model.engine})
    try:
        yield Loaded(
            DraftEngine(served, every),
            served.tokenizer(),
            text.num_hidden_layers,
            count,
            every,
            context,
            f"vllm {import_module('vllm').__version__}, {dtype}",
        )
    finally:
        served.shutdown()
