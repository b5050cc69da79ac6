"""Word times with the Qwen3 forced aligner."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.speech.recognizer import SHORTEST_S, padded
from alignatt_agent.types import SAMPLE_RATE, FloatArray
from alignatt_agent.types.engines import AlignedItem

if TYPE_CHECKING:
    from alignatt_agent.engine.speech_models import TimingModel


class QwenAligner:
    """Finds when each word of a transcript was spoken."""

    def __init__(self, model: TimingModel) -> None:
        self._model = model

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with their times in ``audio`` (``[samples]``), not clipped.

        Words lose their punctuation; punctuation alone is no word. Han characters are separate
        words. Too short audio or a text without words gives ``[]``.

        Raises:
            LanguageError: the splitter of the language is not there.
            EngineError: the engine failed.
        """
        name = find_language(language).check_spoken().name
        words: list[str] = self._model.processor.split_words_for_alignment(text, name)
        seconds = len(audio) / SAMPLE_RATE
        if not words or seconds < SHORTEST_S:
            return []
        # The model's own form. A chat template in front shifts the times by about 92 ms.
        prompt = "<|audio_start|><|audio_pad|><|audio_end|>" + "".join(
            f"{word}<timestamp><timestamp>" for word in words
        )
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        bins = self._model.bins(ids, padded(audio))
        # The last bin may end past the audio: that word continues.
        times = [ms / 1000 for ms in rising([place * self._model.bin_ms for place in bins])]
        return [
            AlignedItem(word, start, end)
            for word, start, end in zip(words, times[::2], times[1::2], strict=True)
        ]


def rising(times: Sequence[float]) -> list[int]:
    """Make times rise: keep the longest rising subsequence, move the others between its members.

    Times are in milliseconds, whole in the result. One or two strays in a row move to the nearer
    neighbor; longer runs are spread evenly. Equal to the repair in Transformers'
    ``Qwen3ASRProcessor.decode_forced_alignment``, ties included, whose quadratic search takes
    1.5 ms for the 100 words of a long tail (this: 0.05 ms).
    """
    kept = _longest_rising(times)
    result = list(times)
    for left, right in pairwise([-1, *kept, len(times)]):
        count = right - left - 1
        if not count:
            continue
        low = times[left] if left >= 0 else times[right]
        high = times[right] if right < len(times) else low
        step = (high - low) / (count + 1)
        for i in range(1, count + 1):
            if count <= 2:
                result[left + i] = low if i <= count + 1 - i else high
            else:
                result[left + i] = low + step * i
    return [int(time) for time in result]


def _longest_rising(values: Sequence[float]) -> list[int]:
    """Indices of the longest subsequence that never falls; of several, the one Qwen takes.

    That is the one whose last member, then whose last but one, and so on, comes first.
    """
    lowest: list[float] = []  # end of a rising subsequence, by its length
    ends: list[list[int]] = []  # every index where the longest one so far has a length
    for i, value in enumerate(values):
        length = bisect_right(lowest, value)
        if length == len(lowest):
            lowest.append(value)
            ends.append([])
        lowest[length] = value
        ends[length].append(i)
    chain: list[int] = []
    for level in reversed(ends):
        chain.append(next(i for i in level if not chain or values[i] <= values[chain[-1]]))
    return chain[::-1]
