"""Translation Score: how often a head's attention peak hits the aligned source word.

The score is taken under the run-time prompt layout (Eq. 1): for each aligned target token, the
head's argmax over the source span has to fall on a token of an aligned source word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from alignatt_agent.nouns import FloatArray, Prompt

Row = Literal["predicting", "emitted"]
ROWS: tuple[Row, ...] = ("predicting", "emitted")


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A prompt, the ids of its translation, and per target token the aligned source words."""

    prompt: Prompt
    target_ids: tuple[int, ...]
    source_words: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """Translation Scores of one row convention.

    Attributes:
        matrix: ``[layers, heads]``, share of aligned target tokens that each head hits.
        tokens: number of aligned target tokens.
    """

    matrix: npt.NDArray[np.float64]
    tokens: int

    def best(self, k: int) -> list[tuple[int, int]]:
        """Return the ``k`` heads with the highest scores, best first."""
        order = np.argsort(-self.matrix, axis=None, kind="stable")[:k]
        width = self.matrix.shape[1]
        return [(int(i) // width, int(i) % width) for i in order]


def attention_rows(model: Any, pair: AlignedPair, row: Row) -> FloatArray:
    """Return teacher-forced rows ``[layers, heads, target tokens, source tokens]``.

    Args:
        model: a Transformers causal model with ``attn_implementation="eager"``.
        pair: what to read.
        row: which query stands for a target token (see ``nouns.Readout``).
    """
    ids = [*pair.prompt.token_ids, *pair.target_ids]
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([ids]), output_attentions=True, use_cache=False)
    first = len(pair.prompt.token_ids) - (row == "predicting")
    queries = slice(first, first + len(pair.target_ids))
    source = slice(pair.prompt.source_start, pair.prompt.source_end)
    stacked = torch.stack([layer[0, :, queries, source].float() for layer in out.attentions])
    return np.asarray(stacked.cpu().numpy(), dtype=np.float32)


def hits(rows: FloatArray, pair: AlignedPair) -> npt.NDArray[np.bool_]:
    """Tell for rows ``[..., target tokens, source tokens]`` which peaks hit an aligned word.

    Target tokens without alignment are left out of the last axis of the result.
    """
    words = np.asarray(pair.prompt.token_word)[rows.argmax(-1)]
    aligned = [t for t, source in enumerate(pair.source_words) if source]
    wanted = [np.isin(words[..., t], pair.source_words[t]) for t in aligned]
    return np.stack(wanted, axis=-1)


def score(model: Any, pairs: Iterable[AlignedPair], row: Row) -> Scores:
    """Score every head of ``model`` on ``pairs``."""
    found: npt.NDArray[np.float64] | None = None
    tokens = 0
    for pair in pairs:
        hit = hits(attention_rows(model, pair, row), pair)
        total = hit.sum(-1).astype(np.float64)
        found = total if found is None else found + total
        tokens += hit.shape[-1]
    if found is None or not tokens:
        raise ValueError("no aligned target token in the calibration pairs")
    return Scores(found / tokens, tokens)


def averaged_score(
    model: Any, pairs: Iterable[AlignedPair], row: Row, heads: Sequence[tuple[int, int]] | None
) -> float:
    """Score the mean row of ``heads`` (of all heads when ``None``), as the policy reads it."""
    hit = tokens = 0
    for pair in pairs:
        rows = attention_rows(model, pair, row)
        if heads is None:
            mean = rows.mean(axis=(0, 1))
        else:
            mean = np.mean([rows[layer, head] for layer, head in heads], axis=0)
        found = hits(mean, pair)
        hit += int(found.sum())
        tokens += found.size
    return hit / tokens
