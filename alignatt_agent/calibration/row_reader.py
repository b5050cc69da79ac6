"""Read the attention rows of all heads of a model in vLLM."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
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
    # These modules load torch; help texts and the checks before a run do not need it.
    from transformers import AutoConfig

    from alignatt_agent.engine.drafts import DraftEngine
    from alignatt_agent.engine.start import start_model
    from alignatt_agent.engine.supported_modes import vllm_version
    from alignatt_agent.engine.transformers_engine import attention_layers

    path = str(locate_one(model))
    try:
        text = AutoConfig.from_pretrained(path).get_text_config()
    except (OSError, ValueError) as error:
        raise EngineError(f"translation model {path}: {error}") from error
    # vLLM's "auto" converts float32 to 16 bits, which moves the peaks of heads with flat attention.
    dtype: str = model.dtype
    if dtype == "auto":
        stored = getattr(text, "dtype", None) or "float32"
        dtype = str(stored).removeprefix("torch.")
    layers = attention_layers(text)
    heads = tuple(product(layers, range(text.num_attention_heads)))
    longest = int(model.engine.get("max_model_len", text.max_position_embeddings))
    context = min(DEFAULT_CONTEXT, longest)
    arguments = {
        # Queries of all heads are staged for a whole batch; short batches keep the buffer small.
        "max_model_len": context,
        "max_num_batched_tokens": context,
        "max_num_seqs": 1,
        "enable_prefix_caching": False,
        "dtype": dtype,
        **model.engine,
    }
    # A revision belongs to the hub; the path is local.
    located = model.model_copy(update={"path": path, "revision": None})
    served = start_model("translation", located, heads, **arguments)
    try:
        yield Loaded(
            reader=DraftEngine(served, heads),
            tokenizer=served.tokenizer(),
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
            heads=heads,
            max_context=context,
            engine=f"vllm {vllm_version()}, {dtype}",
        )
    finally:
        served.shutdown()
