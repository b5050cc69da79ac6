"""Choice among the correct wordings of a reference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

USUAL = 0.7
"""Probability of the first of several synonyms."""


class Wording:
    """Draws synonyms and word orders; the same seed draws the same."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pick(self, synonyms: Sequence[T]) -> T:
        """Draw one of ``synonyms``."""
        if len(synonyms) == 1 or self._rng.random() < USUAL:
            return synonyms[0]
        return self._rng.choice(synonyms[1:])

    def chance(self, p: float) -> bool:
        """Whether to take the rarer of two orders, with probability ``p``."""
        return self._rng.random() < p
