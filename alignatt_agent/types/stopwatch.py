"""Measure the computation time of the stages of a chunk."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

STAGES = ("asr", "aligner", "draft", "replay", "emission")
"""``draft`` excludes the replay of attention rows in the engine; ``emission`` is the rest: prompts,
policy and rounding to units."""


class Stopwatch:
    """Measures seconds per stage of a chunk; ``clock`` may jump if results come from a cache."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.start()

    def start(self) -> None:
        """Begin a chunk."""
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._begin = self.clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to one stage."""
        begin = self.clock()
        try:
            yield
        finally:
            self._seconds[name] += self.clock() - begin

    def shorten(self, name: str, begin: float) -> None:
        """Begin a chunk at time ``begin``, in a stage that ends now and includes the replay."""
        rest = self.clock() - begin
        # A draft ahead may have begun, and replayed rows, before this time.
        replay = min(self._seconds["replay"], rest)
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._seconds[name] = rest - replay
        self._seconds["replay"] = replay
        self._begin = begin

    def move(self, seconds: float, source: str, target: str) -> None:
        """Move ``seconds`` from one stage to another."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def read(self) -> dict[str, float]:
        """Return the seconds of every stage since the chunk began; ``emission`` is the rest."""
        spent = sum(self._seconds.values()) - self._seconds["emission"]
        rest = self.clock() - self._begin - spent
        return self._seconds | {"emission": rest}


def added(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of two measurements, stage by stage."""
    return {stage: one[stage] + two[stage] for stage in one}
