"""Detect loops: model output whose end is repeated far more often than in speech."""

from collections.abc import Sequence

_TIMES, _ITEMS = 3, 12
"""A loop repeats a part at least three times and is at least 12 items longer than two such parts:
one word 14 times, two words 8 times, six words 4 times. Speakers repeat one word up to 8 times.
"""


def loop_start(tokens: Sequence[object]) -> int | None:
    """Return the index where the first copy of the repeated part ends, or ``None`` without a loop.

    ``tokens`` are words or token ids; ``tokens[:loop_start(tokens)]`` contains the part once.
    """
    for size in range(1, len(tokens) // _TIMES + 1):
        same = 0
        while same < len(tokens) - size and tokens[-1 - same] == tokens[-1 - same - size]:
            same += 1
        if same >= max((_TIMES - 1) * size, size + _ITEMS):
            return len(tokens) - same
    return None
