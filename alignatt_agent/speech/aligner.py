"""Word times with the Qwen3 forced aligner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
        words. Audio that is too short, or text without words, gives ``[]``.

        Raises:
            LanguageError: the splitter of the language is not installed.
            EngineError: the engine failed.
        """
        # Qwen's repair of decreasing times. It imports torch, which takes seconds.
        from transformers.models.qwen3_asr.processing_qwen3_asr import _fix_timestamps

        name = find_language(language).check_spoken().name
        words: list[str] = self._model.processor.split_words_for_alignment(text, name)
        seconds = len(audio) / SAMPLE_RATE
        if not words or seconds < SHORTEST_S:
            return []
        # The model's own prompt. A chat template before it shifts the times by about 92 ms.
        prompt = "<|audio_start|><|audio_pad|><|audio_end|>" + "".join(
            f"{word}<timestamp><timestamp>" for word in words
        )
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        bins = self._model.bins(ids, padded(audio))
        # The last bin may end past the audio: that word continues.
        times = [ms / 1000 for ms in _fix_timestamps(np.array(bins) * self._model.bin_ms)]
        return [
            AlignedItem(word, start, end)
            for word, start, end in zip(words, times[::2], times[1::2], strict=True)
        ]
