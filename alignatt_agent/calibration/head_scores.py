"""Compute Translation Scores: how often a head's attention peak hits the aligned source word.

The prompt has the run-time layout (Eq. 1 of the paper). A head hits an aligned target token if its
argmax over the source span is a token of an aligned source word. Each pair requires one
teacher-forced pass. Heads are chosen on some pairs and evaluated on others.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from alignatt_agent.calibration.pairs import CalibrationError
from alignatt_agent.calibration.row_reader import Head, Loaded, Reader
from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.evaluation.statistics import Estimate, micro
from alignatt_agent.types import FloatArray, Prompt
from alignatt_agent.types.engines import Readout, Row

ROWS: tuple[Row, ...] = get_args(Row)
Counts = npt.NDArray[np.int64]

_ENGINE_FAILURES = 3
"""Number of consecutive failures after which the run fails."""

Hits = dict[Row, Counts]
"""Hits by row convention, ``[heads]``: of every head, or of means over the best 1, 2, ... heads."""


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A prompt, its translation's token IDs, and the aligned source words of each target token."""

    prompt: Prompt  # the request up to the translation
    target_ids: tuple[int, ...]
    source_words: tuple[tuple[int, ...], ...]  # empty for a target token without alignment

    @property
    def aligned(self) -> int:
        """Return the number of aligned tokens."""
        return sum(1 for words in self.source_words if words)


@dataclass(frozen=True, slots=True)
class RowScores:
    """Scores of one row convention; the estimates are from the held-out pairs."""

    matrix: npt.NDArray[np.float64]  # [layers, heads], calibration pairs; NaN without attention
    ranking: tuple[Head, ...]  # all heads, best first
    head_set: Estimate  # of the mean row over the ``top_k`` best heads
    all_heads: Estimate
    gain: Estimate  # ``head_set`` minus ``all_heads``, paired


@dataclass(frozen=True, slots=True)
class Outcome:
    """Scores of both row conventions."""

    rows: dict[Row, RowScores]
    calibration: tuple[int, int]  # numbers of pairs and aligned tokens for choosing heads
    held_out: tuple[int, int]  # numbers of pairs and aligned tokens for evaluating heads
    skipped: Counter[str]  # number of pairs that the engine could not process, by reason

    def better_row(self) -> Row:
        """Return the convention with the higher held-out score; ``predicting`` wins a tie."""
        # Predicting rows are available one decode step earlier.
        return max(ROWS, key=lambda row: self.rows[row].head_set.value)


def split(count: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Split pair indices into calibration and held-out indices, both sorted."""
    held_out = set(random.Random(seed).sample(range(count), round(count * share)))
    if not 0 < len(held_out) < count:
        raise CalibrationError(
            f"{count} usable pair(s) cannot be split into calibration and held-out pairs; "
            f"add pairs, or pass a file with --held-out"
        )
    return [i for i in range(count) if i not in held_out], sorted(held_out)


def score(
    loaded: Loaded,
    calibration: Sequence[AlignedPair],
    held_out: Sequence[AlignedPair],
    cache: ResultCache,
    model: str,
    top_k: int,
) -> Outcome:
    """Score every head under both row conventions; ``model`` is part of the cache keys."""
    skipped: Counter[str] = Counter()

    def read(
        part: str, pairs: Sequence[AlignedPair], rankings: dict[Row, list[int]] | None = None
    ) -> list[tuple[int, Hits]]:
        """Return the number of aligned tokens and the hits of each readable pair."""
        found: list[tuple[int, Hits]] = []
        failures, failure = 0, ""
        for pair in tqdm(pairs, f"{part} pairs", unit="pair"):
            content = repr((pair.prompt, pair.target_ids, pair.source_words))
            key = key_of("hits", model, content, repr(rankings))
            hits = cache.get(key)
            if hits is None:
                try:
                    hits = _hits(loaded, pair, rankings)
                except RuntimeError as error:  # EngineError, or torch's out-of-memory error
                    failures, failure = failures + 1, str(error)
                    skipped["engine_error"] += 1
                    if failures == _ENGINE_FAILURES:
                        break
                    continue
                failures = 0
                cache.put(key, hits)
            found.append((pair.aligned, hits))
        if failures == _ENGINE_FAILURES or not found:
            raise CalibrationError(
                f"the engine failed on {failures} {part} pairs in a row (last error: {failure}); "
                "run the command again to resume"
            )
        return found

    results = read("calibration", calibration)
    counts = {row: np.stack([item[row] for _, item in results]).sum(0) for row in ROWS}
    rankings = {row: rank(counts[row]) for row in ROWS}
    judged = read("held-out", held_out, rankings)
    total = sum(count for count, _ in results)
    tokens = [count for count, _ in judged]
    rows: dict[Row, RowScores] = {}
    for row in ROWS:
        matrix = np.full((loaded.num_layers, loaded.num_heads), np.nan)
        matrix[*np.transpose(loaded.heads)] = counts[row] / total
        hits = np.stack([item[row] for _, item in judged])  # [pairs, heads]
        rows[row] = RowScores(
            matrix,
            tuple(loaded.heads[i] for i in rankings[row]),
            micro(hits[:, top_k - 1], tokens),
            micro(hits[:, -1], tokens),
            micro(hits[:, top_k - 1] - hits[:, -1], tokens),
        )
    return Outcome(rows, (len(results), total), (len(judged), sum(tokens)), skipped)


def _hits(loaded: Loaded, pair: AlignedPair, rankings: dict[Row, list[int]] | None) -> Hits:
    """Return a pair's hits for every head, or for means over the heads in ``rankings``."""
    rows = both_rows(loaded.reader, pair, loaded.heads)
    if rankings is None:
        return {row: head_hits(found, pair) for row, found in rows.items()}
    return {row: cumulative_hits(found, pair, rankings[row]) for row, found in rows.items()}


def both_rows(reader: Reader, pair: AlignedPair, heads: Sequence[Head]) -> dict[Row, FloatArray]:
    """Read the rows of both conventions in one pass, ``[target tokens, heads, source tokens]``.

    The query that predicts a token belongs to the previous token. Therefore the predicting rows of
    the translation and one additional arbitrary token contain the rows of both conventions.
    """
    fed = (*pair.target_ids, pair.target_ids[-1])
    rows = reader.rows(pair.prompt, fed, Readout(tuple(heads), "predicting")).source
    return {"predicting": rows[:-1], "emitted": rows[1:]}


def head_hits(rows: FloatArray, pair: AlignedPair) -> Counts:
    """Count the hits of every head: ``[heads]`` from ``[target tokens, heads, source tokens]``."""
    words = np.asarray(pair.prompt.token_word)[rows.argmax(-1)]
    hits = [np.isin(words[t], source) for t, source in enumerate(pair.source_words) if source]
    return np.asarray(np.stack(hits).sum(0, dtype=np.int64))


def cumulative_hits(rows: FloatArray, pair: AlignedPair, ranking: Sequence[int]) -> Counts:
    """Count the hits of the mean row over the first 1, 2, ... heads of a ranking."""
    # The sum has the same argmax as the mean.
    return head_hits(np.cumsum(rows[:, list(ranking)], axis=1, dtype=np.float64), pair)


def rank(counts: Counts) -> list[int]:
    """Return the indices of the heads in descending order of hits; ties keep the model's order."""
    return [int(i) for i in np.argsort(-counts, kind="stable")]
