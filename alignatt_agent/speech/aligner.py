"""Compute word timestamps with a forced aligner or from the attention of Whisper's decoder."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.config.plain_text import text_ids
from alignatt_agent.speech.front_ends import WhisperPrompt
from alignatt_agent.speech.recognizer import SHORTEST_S, padded
from alignatt_agent.types import SAMPLE_RATE, FloatArray
from alignatt_agent.types.engines import AlignedItem
from alignatt_agent.types.running_text import split_words, without_marks

if TYPE_CHECKING:
    from alignatt_agent.engine.cpu_whisper import CpuWhisper
    from alignatt_agent.engine.speech_models import TimingModel


class QwenAligner:
    """Computes the timestamps of a transcript's words with the Qwen3 forced aligner."""

    def __init__(self, model: TimingModel) -> None:
        self._model = model

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with their unclipped timestamps in ``audio``, ``[samples]``.

        Words are returned without punctuation; punctuation alone is not a word. Each Han character
        is a word. The result is empty if the audio is too short or the text contains no words.

        Raises:
            LanguageError: the word splitter for the language is not installed.
            EngineError: the engine failed.
        """
        # This is Qwen's correction of decreasing timestamps. It imports torch, which takes seconds.
        from transformers.models.qwen3_asr.processing_qwen3_asr import _fix_timestamps

        name = find_language(language).check_spoken().name
        words: list[str] = self._model.processor.split_words_for_alignment(text, name)
        seconds = len(audio) / SAMPLE_RATE
        if not words or seconds < SHORTEST_S:
            return []
        # This is the model's own prompt. A chat template would shift timestamps by about 92 ms.
        prompt = "<|audio_start|><|audio_pad|><|audio_end|>" + "".join(
            f"{word}<timestamp><timestamp>" for word in words
        )
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        bins = self._model.bins(ids, padded(audio))
        # If the last word is still being spoken, its last bin may end after the audio.
        times = [ms / 1000 for ms in _fix_timestamps(np.array(bins) * self._model.bin_ms)]
        return [
            AlignedItem(word, start, end)
            for word, start, end in zip(words, times[::2], times[1::2], strict=True)
        ]


class WhisperAligner:
    """Computes word timestamps from the attention of Whisper's decoder to the audio."""

    def __init__(self, model: CpuWhisper) -> None:
        self._model, self._prompt = model, WhisperPrompt(model.tokenizer, model.name)

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with their unclipped timestamps in ``audio``, ``[samples]``.

        A word ends where its punctuation begins, because punctuation attends to the pause.
        """
        tokenizer = self._model.tokenizer
        ids = text_ids(tokenizer, f" {text}")
        whole = tokenizer.decode(ids)
        if not split_words(whole):
            return []
        # CTranslate2 itself adds the token for transcripts without timestamps.
        prompt = self._prompt.ids(find_language(language).name)[:-1]
        starts = self._model.token_starts(audio, prompt, ids)
        ends = [len(tokenizer.decode(ids[:k])) for k in range(len(ids) + 1)]
        items, at = [], 0
        for word in split_words(whole):
            begin = whole.index(word, at)
            at = begin + len(word)
            spoken = begin + max(1, len(without_marks(word)))
            mine = [k for k, (a, b) in enumerate(pairwise(ends)) if a < spoken and b > begin]
            first, last = (mine[0], mine[-1]) if mine else (len(ids), len(ids) - 1)
            items.append(AlignedItem(word, starts[first], starts[last + 1]))
        return items
