"""Store the results of single pairs immediately, so that the same command can resume."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tqdm import tqdm

from alignatt_agent.calibration.pairs import PairError
from alignatt_agent.evaluation.cache import ResultCache

T = TypeVar("T")

_PASSING = ("aligner_error", "engine_error")
"""Failures that may be caused by the engine or the server instead of the pair."""


def get_or_compute_all(
    cache: ResultCache,
    keys: Sequence[bytes],
    compute: Callable[[list[int]], Iterable[T | PairError]],
    title: str,
) -> list[T | PairError]:
    """Return the results of all pairs; compute and store those whose key is not in ``cache``.

    ``compute`` yields the results of the pairs at the given indices, in order. Temporary failures
    are not stored, so the next call tries their pairs again.
    """
    found: dict[int, T | PairError] = {
        place: result for place, key in enumerate(keys) if (result := cache.get(key)) is not None
    }
    missing = [place for place in range(len(keys)) if place not in found]
    with tqdm(total=len(keys), initial=len(found), desc=title, unit="pair") as bar:
        for place, result in zip(missing, compute(missing) if missing else (), strict=True):
            found[place] = result
            bar.update()
            if not (isinstance(result, PairError) and result.reason in _PASSING):
                cache.put(keys[place], result)
    return [found[place] for place in range(len(keys))]
