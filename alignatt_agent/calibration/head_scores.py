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
        count = 0
        for words in self.source_words:
            if words:
                count += 1
        return count


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
    # The seed makes a resumed run split the pairs in the same way.
    held_out = set(random.Random(seed).sample(range(count), round(count * share)))
    if not 0 < len(held_out) < count:
        raise CalibrationError(
            f"{count} usable pair(s) cannot be split into calibration and held-out pairs; "
            f"add pairs, or pass a file with --held-out"
        )
    calibration = set(range(count)) - held_out
    return sorted(calibration), sorted(held_out)


def score(
    loaded: Loaded,
    calibration: Sequence[AlignedPair],
    held_out: Sequence[AlignedPair],
    cache: ResultCache,
    model: str,
    top_k: int,
) -> Outcome:
    """Score every head under both row conventions; ``model`` is part of the cache keys."""
    reader = _HitReader(loaded, cache, model, skipped=Counter())
    chosen_on = reader.read("calibration", calibration)
    counts: dict[Row, Counts] = {}
    rankings: dict[Row, list[int]] = {}
    for row in ROWS:
        counts[row] = chosen_on.hits[row].sum(0)
        rankings[row] = rank(counts[row])
    # The held-out pairs are read with the rankings, because they evaluate means over heads.
    judged_on = reader.read("held-out", held_out, rankings)

    rows: dict[Row, RowScores] = {}
    for row in ROWS:
        # Layers without attention stay NaN.
        matrix = np.full((loaded.num_layers, loaded.num_heads), np.nan)
        # The transposed heads are one index array for layers and one for heads.
        matrix[*np.transpose(loaded.heads)] = counts[row] / sum(chosen_on.tokens)
        # Index k is the mean over k + 1 heads, so the last is the mean over all heads.
        top = judged_on.hits[row][:, top_k - 1]
        every = judged_on.hits[row][:, -1]
        rows[row] = RowScores(
            matrix=matrix,
            ranking=tuple(loaded.heads[i] for i in rankings[row]),
            head_set=micro(top, judged_on.tokens),
            all_heads=micro(every, judged_on.tokens),
            gain=micro(top - every, judged_on.tokens),
        )
    return Outcome(
        rows,
        calibration=chosen_on.size,
        held_out=judged_on.size,
        skipped=reader.skipped,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """The readable pairs of a part: their numbers of aligned tokens, and their hits."""

    tokens: list[int]
    hits: Hits  # [pairs, heads]

    @property
    def size(self) -> tuple[int, int]:
        """Return the numbers of pairs and aligned tokens."""
        return len(self.tokens), sum(self.tokens)


@dataclass(frozen=True, slots=True)
class _HitReader:
    """Reads the hits of pairs from the cache or the engine, and counts unreadable pairs."""

    loaded: Loaded
    cache: ResultCache
    model: str
    skipped: Counter[str]

    def read(
        self,
        part: str,
        pairs: Sequence[AlignedPair],
        rankings: dict[Row, list[int]] | None = None,
    ) -> _Read:
        """Read the hits of all pairs; a ``part`` without readable pairs fails."""
        tokens: list[int] = []
        hits: dict[Row, list[Counts]] = {row: [] for row in ROWS}
        # A single pair may be too long; failures in a row end the run.
        failures = 0
        failure = ""
        for pair in tqdm(pairs, f"{part} pairs", unit="pair"):
            key = self._key(pair, rankings)
            pair_hits = self.cache.get(key)
            if pair_hits is None:
                try:
                    pair_hits = _hits(self.loaded, pair, rankings)
                except RuntimeError as error:  # EngineError, or torch's out-of-memory error
                    failures += 1
                    failure = str(error)
                    self.skipped["engine_error"] += 1
                    if failures == _ENGINE_FAILURES:
                        break
                    continue
                failures = 0
                self.cache.put(key, pair_hits)
            tokens.append(pair.aligned)
            for row in ROWS:
                hits[row].append(pair_hits[row])
        if failures == _ENGINE_FAILURES or not tokens:
            raise CalibrationError(
                f"the engine failed on {failures} {part} pairs in a row (last error: {failure}); "
                "run the command again to resume"
            )
        stacked: Hits = {}
        for row, row_hits in hits.items():
            stacked[row] = np.stack(row_hits)
        return _Read(tokens, stacked)

    def _key(self, pair: AlignedPair, rankings: dict[Row, list[int]] | None) -> bytes:
        # The ids contain the wording of the prompt, so another wording has another key.
        content = repr((pair.prompt, pair.target_ids, pair.source_words))
        return key_of("hits", self.model, content, repr(rankings))


def _hits(loaded: Loaded, pair: AlignedPair, rankings: dict[Row, list[int]] | None) -> Hits:
    """Return a pair's hits for every head, or for means over the heads in ``rankings``."""
    rows = both_rows(loaded.reader, pair, loaded.heads)
    hits: Hits = {}
    for row, attention in rows.items():
        if rankings is None:
            hits[row] = head_hits(attention, pair)
        else:
            hits[row] = cumulative_hits(attention, pair, rankings[row])
    return hits


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
    token_word = np.asarray(pair.prompt.token_word)
    # Raw rows: the filters of the gate would mix earlier tokens into the score of a token.
    peak_words = token_word[rows.argmax(-1)]  # [target tokens, heads]
    hits = np.zeros(rows.shape[1], np.int64)
    for words, aligned_words in zip(peak_words, pair.source_words, strict=True):
        # A token without alignment has no words here and cannot be hit; it is not counted either.
        hits += np.isin(words, aligned_words)
    return hits


def cumulative_hits(rows: FloatArray, pair: AlignedPair, ranking: Sequence[int]) -> Counts:
    """Count the hits of the mean row over the first 1, 2, ... heads of a ranking."""
    # The sum has the same argmax as the mean.
    ranked = rows[:, list(ranking)]
    return head_hits(np.cumsum(ranked, axis=1, dtype=np.float64), pair)


def rank(counts: Counts) -> list[int]:
    """Return the indices of the heads in descending order of hits; ties keep the model's order."""
    order: list[int] = np.argsort(-counts, kind="stable").tolist()
    return order
