"""Recognize speech with a served model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.config.plain_text import text_ids
from alignatt_agent.speech.prompt import longest_answer
from alignatt_agent.speech.sounds import without_sounds
from alignatt_agent.speech.waveform import quietest
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.running_text import join_words, split_words

if TYPE_CHECKING:
    from alignatt_agent.engine.cpu_whisper import CpuWhisper
    from alignatt_agent.engine.speech_models import AudioModel

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

    def __init__(
        self, model: AudioModel | CpuWhisper, prompt: Any, longest_s: float = math.inf
    ) -> None:
        self._model, self._prompt, self._longest_s = model, prompt, longest_s

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

        name, prompt, tokenizer = find_language(language).name, self._prompt, self._model.tokenizer
        if len(audio) / SAMPLE_RATE < SHORTEST_S:
            return Transcript("", requests=0)
        ids, whole = prompt.ids(name, context), self._longest_s == math.inf
        known = text_ids(tokenizer, expected) if whole else []
        texts: list[str] = []
        steps = requests = 0
        for piece in pieces(audio, self._longest_s):
            longest = longest_answer(len(piece) / SAMPLE_RATE, tokenizer, name)
            longest = min(longest, prompt.room(ids))
            answer = self._model.generate(ids, padded(piece), longest, known)
            steps, requests = steps + answer.steps, requests + answer.requests
            said = tokenizer.decode(answer.token_ids, skip_special_tokens=True)
            text = _parse_single_output(said)["transcription"]
            text = text if whole else without_sounds(text)
            if (text or whole) and not answer.ended:
                return Transcript(None, steps, requests)
            texts.append(said_once(text))
        return Transcript(" ".join(filter(None, texts)), steps, requests)


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
    words, repeats = split_words(text), False
    for end in range(len(words), 0, -1):
        start = loop_start(words[:end])
        if start is not None:
            del words[start:end]
            repeats = True
    return join_words(words) if repeats else text


def padded(audio: FloatArray) -> FloatArray:
    """Pad very short audio to the minimum length in the training of the audio encoder."""
    missing = round(_PADDED_S * SAMPLE_RATE) - len(audio)
    return np.pad(audio, (0, missing)) if missing > 0 else audio
