"""Compute attention rows and log-probabilities with Transformers.

This module is the reference for the row capture in vLLM, with which it shares no code.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
)

from alignatt_agent.engine import int8_exactness
from alignatt_agent.engine.quantize import ACTIVATIONS
from alignatt_agent.types import AttentionRows, EngineError, FloatArray, Prompt
from alignatt_agent.types.engines import Readout

_WITHOUT_ATTENTION = ("linear_attention", "mamba", "conv", "moe", "recurrent")
"""Kinds of layers in ``layer_types`` that return no attention matrix."""


class TransformersEngine:
    """A Transformers model that generates text and returns attention rows of specified tokens.

    ``path`` is a directory, or an id on the Hugging Face Hub. With ``random``, random weights
    replace those of the checkpoint. ``tokenizer`` is ``None`` if the checkpoint has none.
    ``attention`` is Transformers' name for the attention function.
    """

    attention = "eager"

    def __init__(
        self, path: str, *, dtype: str = "float32", device: str = "cpu", random: bool = False
    ) -> None:
        self.name = f"translation model {path} (Transformers, {self.attention}, {dtype})"
        config = AutoConfig.from_pretrained(path)
        has_integer_layers = rounds_inputs(config)
        # In another type, Transformers would round the scales of these layers.
        loaded = "float32" if has_integer_layers else dtype
        options = {"dtype": getattr(torch, loaded), "attn_implementation": self.attention}
        # Some multimodal models have no class for causal language modeling.
        generator: Any = AutoModelForImageTextToText
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            generator = AutoModelForCausalLM
        if random:
            with torch.device(device):
                self.model: Any = generator.from_config(config, **options)
        else:
            self.model = generator.from_pretrained(path, **options)
        self.model.to(device).eval()
        if has_integer_layers:
            compute_like_kernels(self.model, getattr(torch, dtype))
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
        self._check_heads(readout)
        ids = [*prompt.token_ids, *token_ids]
        if not token_ids or len(ids) > self._context:
            self._fail(
                f"got {len(token_ids)} tokens, {len(ids)} in total with the prompt; "
                f"expected at least 1 token, and at most {self._context} in total"
            )
        if readout.row == "predicting":
            del ids[-1]  # the query one position earlier predicts the token
        output = self._forward(ids, output_attentions=True, use_cache=False)
        matrices = self._matrices(output)
        first = len(ids) - len(token_ids)
        rows = [matrices[layer][0, head, first:].float() for layer, head in readout.heads]
        return cut_rows(torch.stack(rows, 1).cpu(), prompt)

    @torch.inference_mode()
    def logprobs(self, prompt: Prompt, token_ids: Sequence[int]) -> FloatArray:
        """Return the log-probabilities at the position of each token, ``[tokens, vocabulary]``."""
        ids = [*prompt.token_ids, *token_ids[:-1]]
        output = self._forward(ids, logits_to_keep=len(token_ids), use_cache=False)
        logprobs = torch.log_softmax(output.logits[0].float(), -1)
        copied: FloatArray = logprobs.cpu().numpy()
        return copied

    def _forward(self, ids: list[int], logits_to_keep: int = 1, **options: Any) -> Any:
        inputs = torch.tensor([ids], device=self.model.device)
        return self.model(input_ids=inputs, logits_to_keep=logits_to_keep, **options)

    def _matrices(self, output: Any) -> dict[int, torch.Tensor]:
        """Return the attention matrices of a pass, ``[1, heads, queries, keys]``, by layer."""
        # Hybrid models return matrices only for attention layers, or ``None`` for the others.
        matrices = [matrix for matrix in output.attentions if matrix is not None]
        if len(matrices) != len(self._layers):
            self._fail(
                f"{type(self.model).__name__} returned {len(matrices)} attention matrices, but the "
                f"configuration has {len(self._layers)} layers with attention, so the layers of "
                "the rows are unknown"
            )
        return dict(zip(self._layers, matrices, strict=True))

    def _check_heads(self, readout: Readout) -> None:
        layers, heads = self._shape
        missing = []
        for layer, head in readout.heads:
            if layer not in self._layers or not 0 <= head < heads:
                missing.append((layer, head))
        if readout.heads and not missing:
            return
        hybrid = ""
        if len(self._layers) < layers:
            hybrid = f"; only layers {list(self._layers)} have attention"
        self._fail(
            f"heads {missing or 'none'} were requested in {layers} layers of {heads} heads{hybrid}"
        )

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self.name}: {cause}")


def rounds_inputs(config: Any) -> bool:
    """Return whether a configuration has layers that round their inputs to 8 bits per token."""
    quantization = getattr(config, "quantization_config", None) or {}
    groups = quantization.get("config_groups", {})
    return any(_to_integers(group.get("input_activations")) for group in groups.values())


def _to_integers(rule: Mapping[str, Any] | None) -> bool:
    """Return whether a rule for inputs is that of ``engine/quantize.py``; FP8 has another grid."""
    if rule is None:
        return False
    return all(rule.get(key) == value for key, value in ACTIVATIONS.items())


def compute_like_kernels(model: Any, dtype: torch.dtype) -> None:
    """Make a model in float32 compute like vLLM in ``dtype``.

    An 8-bit layer rounds its inputs to integers, multiplies them exactly, and rounds only the
    result to ``dtype``. Everything else is in ``dtype``. compressed-tensors maps the largest input
    to 127.5 instead of 127. Rows in float32 then differed from vLLM's by 1.2e-3 instead of 3.7e-4.
    """
    for layer in model.modules():
        scheme = getattr(layer, "quantization_scheme", None)
        rule = getattr(scheme, "input_activations", None)
        if rule is not None and _to_integers(rule.model_dump()):
            layer.quantization_enabled = False  # weights are decompressed in any case
            layer.register_forward_pre_hook(lambda _, inputs: rounded(inputs[0]))
            layer.register_forward_hook(lambda _, __, output: output.to(dtype))
        else:
            for parameter in layer.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)


def rounded(inputs: torch.Tensor) -> torch.Tensor:
    """Round ``[..., features]`` per token, as the kernel of this processor does, in float32."""
    codes, scale = int8_exactness.rounded(inputs, int8_exactness.levels())
    return codes * scale


def attention_layers(config: Any) -> tuple[int, ...]:
    """Return the numbers of the layers with attention; hybrid models also have other layers."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    kinds = kinds or ["attention"] * config.num_hidden_layers
    return tuple(number for number, kind in enumerate(kinds) if kind not in _WITHOUT_ATTENTION)


def cut_rows(rows: torch.Tensor, prompt: Prompt) -> AttentionRows:
    """Reduce rows, ``[rows, heads, positions]``, to source weights and the two masses."""
    source = rows[..., prompt.source_start : prompt.source_end]
    length = len(prompt.token_ids)
    rest = rows[..., :length].sum(-1) - source.sum(-1)
    suffix = rows[..., length:].sum(-1)
    return AttentionRows(
        np.ascontiguousarray(source.numpy()), rest.clamp(min=0).numpy(), suffix.numpy()
    )
