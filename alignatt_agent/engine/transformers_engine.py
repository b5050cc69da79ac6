"""Transformers as the reference: rows out of its attention matrices, and log-probabilities.

It shares no code with the capture inside vLLM, for which it is the reference.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
)

from alignatt_agent.engine.quantize import ACTIVATIONS
from alignatt_agent.types import AttentionRows, EngineError, FloatArray, Prompt
from alignatt_agent.types.engines import Readout

_WITHOUT_ATTENTION = ("linear_attention", "mamba", "conv", "moe", "recurrent")
"""Kinds of layers in ``layer_types`` that return no attention matrix."""


class RowRecorder:
    """Collects the wanted rows of successive forward passes over one sequence.

    ``layers`` are the numbers of the layers with attention; ``wanted`` is the number of last
    queries of the next pass whose rows are read.
    """

    def __init__(self, readout: Readout, layers: Sequence[int]) -> None:
        self.wanted = 0
        self._readout = readout
        self._places = {layer: place for place, layer in enumerate(layers)}
        self._length = 0
        self._rows: list[torch.Tensor] = []

    def run(self, model: Any, **inputs: Any) -> Any:
        """Run a forward pass, keep its rows and return its output."""
        output = model(**inputs, output_attentions=True)
        # Hybrids return matrices of their attention layers only, or None for the others.
        found = [matrix for matrix in output.attentions if matrix is not None]
        if len(found) != len(self._places):
            raise EngineError(
                f"{type(model).__name__} returned {len(found)} attention matrices, but its "
                f"configuration names {len(self._places)} layers with attention: which layer a "
                "row belongs to is unknown"
            )
        queries = found[0].shape[2]
        self._length += queries
        if self.wanted:
            last = slice(queries - self.wanted, queries)
            heads = [(self._places[layer], head) for layer, head in self._readout.heads]
            rows = [found[place][0, head, last].float() for place, head in heads]
            # Sliding layers only cache the end of the sequence.
            padded = [pad(row, (self._length - row.shape[1], 0)) for row in rows]
            self._rows.append(torch.stack(padded, 1))
        return output

    def rows(self, length: int) -> torch.Tensor:
        """Return ``[rows, heads, length]`` over all positions of the sequence, in float32."""
        result = torch.zeros(0, len(self._readout.heads), length)
        parts = [pad(part, (0, length))[..., :length] for part in self._rows]
        return torch.cat([result, *[part.cpu() for part in parts]])


class TransformersEngine:
    """A Transformers model that generates text, read at given tokens.

    Args:
        path: directory, or id on the Hugging Face hub.
        dtype: torch's name of the computation type.
        device: torch's name of the device.
        random: whether to draw random weights instead of loading them.

    Attributes:
        attention: Transformers' name of the attention function.
        recorder: reads the rows of that function.
        tokenizer: ``None`` if the checkpoint has none.
    """

    attention = "eager"
    recorder: type[RowRecorder] = RowRecorder

    def __init__(
        self, path: str, *, dtype: str = "float32", device: str = "cpu", random: bool = False
    ) -> None:
        self.name = f"translation model {path} (Transformers, {self.attention}, {dtype})"
        options = {"dtype": getattr(torch, dtype), "attn_implementation": self.attention}
        config = AutoConfig.from_pretrained(path)
        generator = self._class_of(config)
        if random:
            with torch.device(device):
                self.model: Any = generator.from_config(config, **options)
        else:
            self.model = generator.from_pretrained(path, **options)
        self.model.to(device).eval()
        round_activations(self.model)
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
        except (OSError, ValueError, ImportError):
            self.tokenizer = None
        text = self.model.config.get_text_config(decoder=True)
        self._layers = attention_layers(text)
        self._shape = text.num_hidden_layers, text.num_attention_heads
        self._context = text.max_position_embeddings

    @torch.inference_mode()
    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return the rows of ``token_ids`` after ``prompt``, in one teacher-forced pass."""
        recorder = self._recorder(prompt, readout)
        assert recorder is not None
        ids = [*prompt.token_ids, *token_ids]
        if not token_ids or len(ids) > self._context:
            got = f"got {len(token_ids)} tokens, {len(ids)} in all"
            self._fail(f"{got}; expected 1 or more, at most {self._context} in all")
        recorder.wanted = len(token_ids)
        self._forward(ids if readout.row == "emitted" else ids[:-1], recorder, use_cache=False)
        return cut_rows(recorder.rows(len(ids)), prompt)

    @torch.inference_mode()
    def logprobs(self, prompt: Prompt, token_ids: Sequence[int]) -> FloatArray:
        """Return log-probabilities ``[tokens, vocabulary]`` at the position of each token."""
        ids = [*prompt.token_ids, *token_ids[:-1]]
        output = self._forward(ids, None, keep=len(token_ids), use_cache=False)
        found: FloatArray = torch.log_softmax(output.logits[0].float(), -1).cpu().numpy()
        return found

    def _forward(
        self, ids: list[int], recorder: RowRecorder | None, keep: int = 1, **options: Any
    ) -> Any:
        inputs = torch.tensor([ids], device=self.model.device)
        options = {"input_ids": inputs, "logits_to_keep": keep, **options}
        return recorder.run(self.model, **options) if recorder else self.model(**options)

    def _recorder(self, prompt: Prompt, readout: Readout | None) -> RowRecorder | None:
        if readout is None:
            return None
        length = len(prompt.token_ids)
        if not 0 <= prompt.source_start < prompt.source_end <= length:
            self._fail(
                f"the source span {prompt.source_start}:{prompt.source_end} is not inside the "
                f"prompt of {length} tokens"
            )
        layers, heads = self._shape
        bad = [(a, b) for a, b in readout.heads if a not in self._layers or not 0 <= b < heads]
        if bad or not readout.heads:
            hybrid = f"; only layers {list(self._layers)} have attention"
            self._fail(
                f"heads {bad or 'none'} were asked for in {layers} layers of {heads} heads"
                + hybrid * (len(self._layers) < layers)
            )
        return self.recorder(readout, self._layers)

    def _class_of(self, config: Any) -> Any:
        """Return the class that loads the model; some models with images have no causal class."""
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            return AutoModelForCausalLM
        if type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
            return AutoModelForImageTextToText
        return self._fail(
            f"Transformers has no class for {type(config).__name__} that generates text; "
            "name the checkpoint of a decoder-only language model"
        )

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self.name}: {cause}")


def round_activations(model: Any) -> None:
    """Round the inputs of 8-bit layers as vLLM does.

    compressed-tensors maps the largest to 127.5, not 127: rows differed by 1.2e-3, not 3.7e-4.
    """
    for layer in model.modules():
        rule = getattr(getattr(layer, "quantization_scheme", None), "input_activations", None)
        if rule and all(getattr(rule, key) == value for key, value in ACTIVATIONS.items()):
            layer.quantization_enabled = False  # weights are decompressed in any case
            layer.register_forward_pre_hook(lambda _, inputs: rounded(inputs[0]))


def rounded(inputs: torch.Tensor) -> torch.Tensor:
    """Round ``[..., features]`` to 8 bits, with one scale for each token."""
    exact = inputs.float()
    scale = exact.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    # Times the reciprocal, as in the kernel: quotients round differently in bfloat16.
    return ((exact * (1 / scale)).round() * scale).to(inputs.dtype)


def attention_layers(config: Any) -> tuple[int, ...]:
    """Return the numbers of the layers with attention; hybrid models also have others."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    kinds = kinds or ["attention"] * config.num_hidden_layers
    return tuple(number for number, kind in enumerate(kinds) if kind not in _WITHOUT_ATTENTION)


def cut_rows(rows: torch.Tensor, prompt: Prompt) -> AttentionRows:
    """Reduce ``[rows, heads, positions]`` to the source and the two masses."""
    source = rows[..., prompt.source_start : prompt.source_end]
    length = len(prompt.token_ids)
    rest = rows[..., :length].sum(-1) - source.sum(-1)
    suffix = rows[..., length:].sum(-1)
    return AttentionRows(
        np.ascontiguousarray(source.numpy()), rest.clamp(min=0).numpy(), suffix.numpy()
    )
