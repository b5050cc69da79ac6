"""Recognize speech with a served model."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.config.plain_text import text_ids
from alignatt_agent.speech.prompt import longest_answer
from alignatt_agent.speech.sounds import without_sounds
from alignatt_agent.speech.waveform import quietest
from alignatt_agent.text.repetition import loop_start
from alignatt_agent.text.running_text import join_words, split_words
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript
from alignatt_agent.types.engines import AudioEngine

SHORTEST_S = 0.1
"""Minimum length of audio that can contain a word, in seconds."""

_PADDED_S = 0.5
"""Seconds to which shorter audio is padded with silence, as in the training of Qwen3-ASR."""

_SEARCHED_S = 4.0
"""Seconds at the end of a piece in which the quietest place for a cut is selected."""


class PromptedRecognizer:
    """Transcribes a waveform in a forced language.

    If ``longest_s`` is finite, transcripts are not verified, and descriptions of other sounds are
    removed (see ``without_sounds``).
    """

    def __init__(self, model: AudioEngine, prompt: Any, longest_s: float = math.inf) -> None:
        self._model = model
        self._prompt = prompt
        self._longest_s = longest_s

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``, or ``""`` if the audio is too short.

        ``context`` contains names and terms that may occur. ``expected`` is the probable beginning
        of the transcript and only saves time.

        The text of an answer that reaches the token limit is ``None``, because no one speaks that
        fast. Repetitions from a loop of the model are removed. Like Qwen's code, this method also
        removes 20 repetitions of a few characters.

        Raises:
            LanguageError: the model does not support the language.
            ContextError: the context does not fit the model.
            EngineError: the engine failed.
        """
        # This imports torch, which takes seconds, so only processes with engines import it.
        from transformers.models.qwen3_asr.processing_qwen3_asr import _parse_single_output

        if len(audio) / SAMPLE_RATE < SHORTEST_S:
            return Transcript("", requests=0)
        name = find_language(language).name
        tokenizer = self._model.tokenizer
        prompt_ids = self._prompt.ids(name, context)
        is_unlimited = self._longest_s == math.inf
        expected_ids: list[int] = []
        if is_unlimited:
            expected_ids = text_ids(tokenizer, expected)
        texts: list[str] = []
        steps = 0
        requests = 0
        for piece in pieces(audio, self._longest_s):
            max_tokens = min(
                longest_answer(len(piece) / SAMPLE_RATE, tokenizer, name),
                self._prompt.room(prompt_ids),
            )
            answer = self._model.generate(prompt_ids, padded(piece), max_tokens, expected_ids)
            steps += answer.steps
            requests += answer.requests
            decoded = tokenizer.decode(answer.token_ids, skip_special_tokens=True)
            text = _parse_single_output(decoded)["transcription"]
            if not is_unlimited:
                text = without_sounds(text)
            # An endless answer of sounds alone contains nothing that could be lost.
            if (text or is_unlimited) and not answer.ended:
                return Transcript(None, steps, requests)
            text = said_once(text)
            if text:
                texts.append(text)
        return Transcript(" ".join(texts), steps, requests)


def pieces(audio: FloatArray, longest_s: float) -> Iterator[FloatArray]:
    """Cut audio, ``[samples]``, at quiet places into pieces of at most ``longest_s`` seconds."""
    while len(audio) > longest_s * SAMPLE_RATE:
        longest = round(longest_s * SAMPLE_RATE)
        cut = quietest(audio, longest - round(_SEARCHED_S * SAMPLE_RATE), longest)
        yield audio[:cut]
        audio = audio[cut:]
    yield audio


def said_once(text: str) -> str:
    """Remove the repetitions that a model writes in a loop."""
    words = split_words(text)
    is_repetitive = False
    # Each end is examined, because a model may go on after a loop.
    for end in range(len(words), 0, -1):
        start = loop_start(words[:end])
        if start is not None:
            del words[start:end]
            is_repetitive = True
    # Joining words would change the white space of other transcripts.
    if is_repetitive:
        return join_words(words)
    return text


def padded(audio: FloatArray) -> FloatArray:
    """Pad very short audio to the minimum length in the training of the audio encoder."""
    missing = round(_PADDED_S * SAMPLE_RATE) - len(audio)
    if missing <= 0:
        return audio
    return np.pad(audio, (0, missing))
