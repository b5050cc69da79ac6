"""OmniSTEval's alignment of two sequences, compiled, with two bits of memory per pair of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from omnisteval import alignment

_MATCH, _DELETE, _INSERT = 0, 1, 2


def align_compactly(
    seq1: Sequence[Any], seq2: Sequence[Any], char_level: bool
) -> tuple[list[Any], list[Any]]:
    """Align two sequences of ``omnisteval.alignment.Word``; equal to OmniSTEval's in every tie."""
    texts = list(dict.fromkeys([word.text for word in seq1] + [word.text for word in seq2]))
    index = {text: i for i, text in enumerate(texts)}
    first = np.array([index[word.text] for word in seq1], np.int32)
    second = np.array([index[word.text] for word in seq2], np.int32)
    mark = np.array([text in alignment.ALL_PUNCT for text in texts])
    back = _fill(first, second, mark, *_letters(texts), char_level)

    left: list[Any] = []
    right: list[Any] = []
    i, j = len(seq1), len(seq2)
    while i > 0 or j > 0:
        if i == 0:
            move = _INSERT
        elif j == 0:
            move = _DELETE
        else:
            move = int(back[i - 1, (j - 1) // 4] >> 2 * ((j - 1) % 4)) & 3
        left.append(None if move == _INSERT else seq1[i - 1])
        right.append(None if move == _DELETE else seq2[j - 1])
        i -= move != _INSERT
        j -= move != _DELETE
    return left[::-1], right[::-1]


def _letters(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the set of characters of each text as bits, ``[texts, words]``, and its size."""
    alphabet = {char: i for i, char in enumerate(sorted(set("".join(texts))))}
    bits = np.zeros((len(texts), len(alphabet) // 64 + 1), np.uint64)
    for row, text in enumerate(texts):
        for char in set(text):
            place = alphabet[char]
            bits[row, place // 64] |= np.uint64(1 << place % 64)
    return bits, np.array([len(set(text)) for text in texts], np.int64)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]  # numba is untyped
def _common(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> int:
    count = 0
    for k in range(len(a)):
        both = a[k] & b[k]
        while both:
            both &= both - np.uint64(1)
            count += 1
    return count


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _fill(
    first: npt.NDArray[np.int32],
    second: npt.NDArray[np.int32],
    mark: npt.NDArray[np.bool_],
    bits: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.int64],
    char_level: bool,
) -> npt.NDArray[np.uint8]:
    """Return the moves of the recursion, four to a byte, ``[first, second / 4]``."""
    n, m = len(first), len(second)
    back = np.zeros((n, (m + 3) // 4), np.uint8)
    above = np.zeros(m + 1, np.float64)
    row = np.zeros(m + 1, np.float64)
    score = np.zeros(len(mark), np.float64)
    known = np.full(len(mark), -1, np.int32)
    for i in range(n):
        a = first[i]
        for j in range(m):
            b = second[j]
            if known[b] != a:
                known[b] = a
                if mark[a] != mark[b]:
                    score[b] = -np.inf
                elif char_level:
                    score[b] = 1.0 if a == b else 0.0
                else:
                    inside = _common(bits[a], bits[b])
                    union = sizes[a] + sizes[b] - inside
                    score[b] = inside / union if union else 0.0
            match, delete, insert = above[j] + score[b], above[j + 1], row[j]
            if match >= delete and match >= insert:
                row[j + 1] = match
            elif delete >= insert:
                row[j + 1] = delete
                back[i, j // 4] |= 1 << 2 * (j % 4)
            else:
                row[j + 1] = insert
                back[i, j // 4] |= 2 << 2 * (j % 4)
        above, row = row, above
        row[0] = 0.0
    return back
