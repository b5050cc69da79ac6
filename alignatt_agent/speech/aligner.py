"""Compute word timestamps with a forced aligner or from the attention of Whisper's decoder."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.config.plain_text import text_ids
from alignatt_agent.speech.front_ends import WhisperPrompt
from alignatt_agent.speech.recognizer import SHORTEST_S, padded
from alignatt_agent.text.running_text import split_words, without_marks
from alignatt_agent.types import SAMPLE_RATE, FloatArray
from alignatt_agent.types.engines import AlignedItem, TimeBinsEngine, TokenTimesEngine


class QwenAligner:
    """Computes the timestamps of a transcript's words with the Qwen3 forced aligner."""

    def __init__(self, model: TimeBinsEngine) -> None:
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
        prompt = "<|audio_start|><|audio_pad|><|audio_end|>"
        for word in words:
            prompt += f"{word}<timestamp><timestamp>"
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        bins = self._model.bins(ids, padded(audio))
        # If the last word is still being spoken, its last bin may end after the audio.
        times_ms = _fix_timestamps(np.array(bins) * self._model.bin_ms)
        return [
            AlignedItem(word, start=start_ms / 1000, end=end_ms / 1000)
            for word, start_ms, end_ms in zip(words, times_ms[::2], times_ms[1::2], strict=True)
        ]


class WhisperAligner:
    """Computes word timestamps from the attention of Whisper's decoder to the audio."""

    def __init__(self, model: TokenTimesEngine) -> None:
        self._model = model
        self._prompt = WhisperPrompt(model.tokenizer, model.name)

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
        # Text is decoded in whole prefixes, because a character may consist of several tokens.
        text_ends = [len(tokenizer.decode(ids[:count])) for count in range(len(ids) + 1)]
        aligned_words: list[AlignedItem] = []
        search_from = 0
        for word in split_words(whole):
            begin = whole.index(word, search_from)
            search_from = begin + len(word)
            spoken_end = begin + max(1, len(without_marks(word)))
            first, after = _token_range(text_ends, begin, spoken_end)
            aligned_words.append(AlignedItem(word, start=starts[first], end=starts[after]))
        return aligned_words


def _token_range(text_ends: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """Return the first token with characters from ``begin`` to ``end``, and the token after them.

    ``text_ends[k]`` is the number of characters in the first ``k`` tokens. Without such a token,
    both are the end of the text.
    """
    tokens = [
        token
        for token, (token_begin, token_end) in enumerate(pairwise(text_ends))
        if token_begin < end and token_end > begin
    ]
    if not tokens:
        token_count = len(text_ends) - 1
        return token_count, token_count
    return tokens[0], tokens[-1] + 1
