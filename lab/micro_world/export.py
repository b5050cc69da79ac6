"""Saves trained Transformers Qwen3-ASR weights in the layout of the original checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lab.stand_ins.speech_layout import (
    LM_HEAD,
    as_aligner,
    original_names,
    save_model,
    thinker_config,
)


def save_recognizer(
    state: Mapping[str, torch.Tensor], config: Any, tokenizer: Any, folder: str | Path
) -> None:
    """Write the checkpoint of a ``Qwen3ASRForConditionalGeneration`` next to its tokenizer."""
    weights = original_names(state)
    if config.tie_word_embeddings:
        weights.pop(LM_HEAD, None)
    ids = tokenizer.get_vocab()
    save_model(weights, thinker_config(config, ids), ids, Path(folder))


def save_aligner(
    state: Mapping[str, torch.Tensor],
    classifier: torch.Tensor,
    config: Any,
    tokenizer: Any,
    folder: str | Path,
) -> None:
    """Write the checkpoint of a forced aligner next to its tokenizer.

    ``state`` is that of a ``Qwen3ASRForConditionalGeneration``, whose ``lm_head`` is left out;
    ``classifier`` is the ``[bins, hidden]`` weight that scores time bins.
    """
    weights = original_names({k: v for k, v in state.items() if not k.startswith("lm_head.")})
    weights[LM_HEAD] = classifier.detach().cpu().contiguous()
    ids = tokenizer.get_vocab()
    aligner = as_aligner(thinker_config(config, ids), classifier.shape[0], ids)
    save_model(weights, aligner, ids, Path(folder))
