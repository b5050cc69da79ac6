"""Loops: output of a model whose end repeats itself far more often than a speaker does."""

from collections.abc import Sequence

_TIMES, _ITEMS = 3, 12
"""A loop has said its part three times, and at least twice and twelve items more: one word 14
times, two words 8 times, six words 4 times. Speakers say one word up to 8 times."""


def loop_start(tokens: Sequence[object]) -> int | None:
    """Return where the part that the end of ``tokens`` repeats was said once; ``None``: no loop.

    ``tokens`` are words or token ids; ``tokens[:loop_start(tokens)]`` has the part once.
    """
    for size in range(1, len(tokens) // _TIMES + 1):
        same = 0
        while same < len(tokens) - size and tokens[-1 - same] == tokens[-1 - same - size]:
            same += 1
        if same >= max((_TIMES - 1) * size, size + _ITEMS):
            return len(tokens) - same
    return None
