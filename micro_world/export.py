"""Saves trained Transformers Qwen3-ASR weights in the layout of the original checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from alignatt_agent.checks.speech_layout import (
    LM_HEAD,
    as_aligner,
    original_names,
    save_model,
    thinker_config,
)


def save_recognizer(
    state: Mapping[str, torch.Tensor], config: Any, tokenizer: Any, folder: str | Path
) -> None:
    """Write a speech recogniser checkpoint.

    Args:
        state: state dict of a ``Qwen3ASRForConditionalGeneration``.
        config: its ``transformers.Qwen3ASRConfig``.
        tokenizer: the fast tokenizer, with the special tokens of Qwen3-ASR.
        folder: where to write; created when missing.
    """
    weights = original_names(state)
    if config.tie_word_embeddings:
        weights.pop(LM_HEAD, None)
    ids = _save_tokenizer(tokenizer, Path(folder))
    save_model(weights, thinker_config(config, ids), ids, Path(folder))


def save_aligner(
    state: Mapping[str, torch.Tensor],
    classifier: torch.Tensor,
    config: Any,
    tokenizer: Any,
    folder: str | Path,
) -> None:
    """Write a forced aligner checkpoint.

    Args:
        state: state dict with the encoder, projector and decoder under the names of
            ``Qwen3ASRForConditionalGeneration``; an ``lm_head`` in it is left out.
        classifier: ``[bins, hidden]`` weight of the bias-free layer that scores time bins.
        config: the ``transformers.Qwen3ASRConfig``.
        tokenizer: the fast tokenizer, with ``<timestamp>`` among its special tokens.
        folder: where to write; created when missing.
    """
    weights = original_names({k: v for k, v in state.items() if not k.startswith("lm_head.")})
    weights[LM_HEAD] = classifier.detach().cpu().contiguous()
    ids = _save_tokenizer(tokenizer, Path(folder))
    aligner = as_aligner(thinker_config(config, ids), classifier.shape[0], ids)
    save_model(weights, aligner, ids, Path(folder))


def _save_tokenizer(tokenizer: Any, folder: Path) -> dict[str, int]:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    ids: dict[str, int] = tokenizer.get_vocab()
    return ids
