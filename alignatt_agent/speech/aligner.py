"""Word times with the Qwen3 forced aligner."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from alignatt_agent.speech.recognizer import SHORTEST_S, padded
from alignatt_agent.types import SAMPLE_RATE, AlignedItem, FloatArray


class Timer(Protocol):
    """A model that gives a time bin for every timestamp token."""

    tokenizer: Any
    bin_ms: float

    def bins(self, token_ids: list[int], audio: FloatArray) -> list[int]:
        """Return one bin per timestamp token, in order."""


class QwenAligner:
    """Finds when each word of a transcript was spoken.

    Args:
        model: the served forced aligner.
    """

    def __init__(self, model: Timer) -> None:
        self._model = model

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with their times in ``audio`` (``[samples]``), not clipped.

        Words lose their punctuation; what is punctuation alone is no word. Too short audio or a
        text without words gives ``[]``.

        Raises:
            ValueError: the language needs a word splitter that is not there.
            EngineError: the engine failed.
        """
        words = split_words(text, language)
        seconds = len(audio) / SAMPLE_RATE
        if not words or seconds < SHORTEST_S:
            return []
        # The model's own form. A chat template in front shifts the times by about 92 ms.
        prompt = "<|audio_start|><|audio_pad|><|audio_end|>" + "".join(
            f"{word}<timestamp><timestamp>" for word in words
        )
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        bins = monotone(self._model.bins(ids, padded(audio)))
        # The last bin may end past the audio: that word goes on, and the caller has to know.
        times = np.asarray(bins) * self._model.bin_ms / 1000
        return [
            AlignedItem(word, float(times[2 * i]), float(times[2 * i + 1]))
            for i, word in enumerate(words)
        ]


def split_words(text: str, language: str) -> list[str]:
    """Split a transcript into what the aligner times: words, or single Han characters.

    Raises:
        ValueError: Japanese and Korean need a splitter of their own.
    """
    if language in ("ja", "ko"):
        raise ValueError(
            f"forced alignment of {language!r} needs a word splitter; none is built in"
        )
    pieces: list[str] = []
    for chunk in text.split():
        word = ""
        for char in chunk:
            if _is_han(char):
                pieces += [word, char]
                word = ""
            elif char == "'" or unicodedata.category(char)[0] in "LN":
                word += char
        pieces.append(word)
    return [piece for piece in pieces if piece]


def _is_han(char: str) -> bool:
    return unicodedata.name(char, "").startswith("CJK ") and unicodedata.category(char) == "Lo"


def monotone(values: Sequence[int]) -> list[float]:
    """Make times rise: keep the longest rising subsequence, move the others between its members.

    One or two strays in a row snap to the nearer neighbour; longer runs are spread evenly.
    """
    kept = _longest_rising(values)
    if not kept:
        return []
    result = [float(value) for value in values]
    anchors = [-1, *kept, len(values)]
    for left, right in pairwise(anchors):
        count = right - left - 1
        if count <= 0:
            continue
        low = result[left] if left >= 0 else result[right]
        high = result[right] if right < len(values) else low
        for i in range(1, count + 1):
            if count <= 2:
                result[left + i] = low if i <= count + 1 - i else high
            else:
                result[left + i] = low + (high - low) * i / (count + 1)
    return result


def _longest_rising(values: Sequence[int]) -> list[int]:
    """Indices of the longest subsequence that never falls."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for i, value in enumerate(values):
        at = bisect_right(tails, value)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(value)
            ends.append(i)
        else:
            tails[at], ends[at] = value, i
    chain = []
    i = ends[-1] if ends else -1
    while i >= 0:
        chain.append(i)
        i = before[i]
    return chain[::-1]
