"""One teacher-forced pass per pair: choose heads on some pairs, judge them on the others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from alignatt_agent.calibration.row_reader import Loaded
from alignatt_agent.calibration.state import Journal
from alignatt_agent.calibration.translation_score import (
    ROWS,
    AlignedPair,
    Head,
    Row,
    both_rows,
    cumulative_hits,
    head_hits,
    rank,
)
from alignatt_agent.evaluation.statistics import Estimate, macro, micro

_ENGINE_FAILURES = 3
"""So many pairs in a row that cannot be read mean that the engine is gone."""


class ScoringError(RuntimeError):
    """No scores can be computed; the message says why."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores of head-averaged rows on pairs that heads were not chosen on.

    Attributes:
        by_k: ``[heads]``, micro mean of the ``k`` best heads at place ``k - 1``.
        by_k_bounds: ``[heads, 2]``, its bootstrap interval.
        head_set: micro and macro mean of the ``top_k`` best.
        all_heads: micro and macro mean of all heads.
        gain: ``head_set`` minus ``all_heads``, micro, paired.
    """

    by_k: npt.NDArray[np.float64]
    by_k_bounds: npt.NDArray[np.float64]
    head_set: tuple[Estimate, Estimate]
    all_heads: tuple[Estimate, Estimate]
    gain: Estimate


@dataclass(frozen=True, slots=True)
class RowScores:
    """Outcome for one row convention.

    Attributes:
        matrix: ``[layers, heads]`` Translation Scores on the calibration pairs.
        ranking: all heads, best first.
        held_out: scores on the other pairs.
    """

    matrix: npt.NDArray[np.float64]
    ranking: tuple[Head, ...]
    held_out: HeldOut

    def ts(self, head: Head) -> float:
        """Translation Score of a head."""
        return float(self.matrix[head])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What calibration found.

    Attributes:
        rows: scores of both conventions.
        calibration: pairs and aligned tokens that heads were chosen on.
        held_out: pairs and aligned tokens that they were judged on.
        skipped: pairs that the engine could not read, by reason.
    """

    rows: dict[Row, RowScores]
    calibration: tuple[int, int]
    held_out: tuple[int, int]
    skipped: Counter[str]

    def better_row(self) -> Row:
        """The convention with the higher held-out score; ``predicting`` if they are equal.

        Predicting rows are known one decoding step sooner.
        """
        return max(ROWS, key=lambda row: self.rows[row].held_out.head_set[0].value)


def split(count: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Split pair numbers into calibration and held-out ones, each in order.

    Args:
        count: number of pairs.
        share: share of held-out pairs.
        seed: of the shuffle.

    Raises:
        ScoringError: one part would be empty.
    """
    held_out = set(random.Random(seed).sample(range(count), round(count * share)))
    if not 0 < len(held_out) < count:
        raise ScoringError(
            f"{count} usable pair(s) cannot be split into calibration and held-out pairs; "
            f"give more pairs, or a file with --held-out"
        )
    return [i for i in range(count) if i not in held_out], sorted(held_out)


def score(
    loaded: Loaded,
    calibration: Sequence[AlignedPair],
    held_out: Sequence[AlignedPair],
    journal: Journal,
    top_k: int,
) -> Outcome:
    """Score every head and both row conventions.

    Args:
        loaded: the model.
        calibration: pairs that heads are chosen on.
        held_out: pairs that they are judged on.
        journal: keeps the results of each pair.
        top_k: number of heads in the set.

    Raises:
        ScoringError: the engine could read no pair of one part.
    """
    heads = loaded.heads
    bar = tqdm(total=len(calibration) + len(held_out), desc="scoring heads", unit="pair")
    with bar:
        bar.update(len(journal))
        results = _results("calibration", loaded, calibration, journal, None, bar)
        counts = {row: _table(results, row).sum(0) for row in ROWS}
        rankings = {row: rank(counts[row]) for row in ROWS}
        judged = _results("held_out", loaded, held_out, journal, rankings, bar)
    tokens = [item["tokens"] for item in results]
    judged_tokens = [item["tokens"] for item in judged]
    rows: dict[Row, RowScores] = {}
    for row in ROWS:
        matrix = counts[row].reshape(loaded.num_layers, loaded.num_heads) / sum(tokens)
        ranking = tuple(heads[i] for i in rankings[row])
        rows[row] = RowScores(matrix, ranking, _judge(_table(judged, row), judged_tokens, top_k))
    missing = Counter(
        item["skipped"]
        for part, pairs in (("calibration", calibration), ("held_out", held_out))
        for item in (journal.get(f"{part}:{i}") for i in range(len(pairs)))
        if "skipped" in item
    )
    return Outcome(rows, (len(results), sum(tokens)), (len(judged), sum(judged_tokens)), missing)


def _results(
    part: str,
    loaded: Loaded,
    pairs: Sequence[AlignedPair],
    journal: Journal,
    rankings: dict[Row, list[int]] | None,
    bar: Any,
) -> list[dict[str, Any]]:
    """Return the results of the readable pairs, computing those that are not in the journal.

    Errors of the engine are kept only once it has read another pair: those of an engine that died
    would otherwise be taken for pairs that cannot be read.
    """
    refused: dict[str, Any] = {}
    for i, pair in enumerate(pairs):
        key = f"{part}:{i}"
        if key in journal:
            continue
        try:
            result = _read(loaded, pair, rankings)
        except RuntimeError as error:  # EngineError, or torch's when memory runs out
            refused[key] = {"skipped": "engine_error", "cause": str(error)}
            if len(refused) == _ENGINE_FAILURES:
                raise ScoringError(
                    f"the engine failed on {len(refused)} pairs in a row, the last time with: "
                    f"{error}; start the same command again to go on from here"
                ) from error
        else:
            journal.put_all({**refused, key: result})
            bar.update(1 + len(refused))
            refused = {}
    journal.put_all(refused)
    bar.update(len(refused))
    found = [item for i in range(len(pairs)) if "tokens" in (item := journal.get(f"{part}:{i}"))]
    if not found:
        causes = sorted({journal.get(f"{part}:{i}")["cause"] for i in range(len(pairs))})
        raise ScoringError(f"the engine could read none of the {part} pairs: {causes[:3]}")
    return found


def _read(
    loaded: Loaded, pair: AlignedPair, rankings: dict[Row, list[int]] | None
) -> dict[str, Any]:
    rows = both_rows(loaded.reader, pair, loaded.heads)
    counted = {
        row: head_hits(rows[row], pair)
        if rankings is None
        else cumulative_hits(rows[row], pair, rankings[row])
        for row in ROWS
    }
    tokens = sum(1 for words in pair.source_words if words)
    return {"tokens": tokens, **{row: counts.tolist() for row, counts in counted.items()}}


def _table(results: Iterable[dict[str, Any]], row: Row) -> npt.NDArray[np.int64]:
    return np.asarray([item[row] for item in results], dtype=np.int64)


def _judge(hits: npt.NDArray[np.int64], tokens: list[int], top_k: int) -> HeldOut:
    """Summarise ``[pairs, heads]`` hits of the means over the 1, 2, ... best heads."""
    estimates = [micro(column, tokens) for column in hits.T]
    best, everything = hits[:, top_k - 1], hits[:, -1]
    return HeldOut(
        np.asarray([x.value for x in estimates]),
        np.asarray([(x.low, x.high) for x in estimates]),
        (estimates[top_k - 1], macro(best, tokens)),
        (estimates[-1], macro(everything, tokens)),
        micro(best - everything, tokens),
    )
