"""Speech recognition with Qwen3-ASR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.speech.prompt import RecognitionPrompt, longest_answer
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.running_text import join_words, split_words

if TYPE_CHECKING:
    from alignatt_agent.engine.speech_models import SpeechModel

SHORTEST_S = 0.1
"""Shorter audio holds no word."""

_PADDED_S = 0.5
"""Shorter audio is padded with silence, as the model was trained."""


class QwenRecognizer:
    """Transcribes a waveform with the language forced."""

    def __init__(self, model: SpeechModel) -> None:
        self._model = model
        self._prompt = RecognitionPrompt(model.processor, model.tokenizer, model.name)

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``; of too short audio it is ``""``.

        An answer that reached its bound gives no text: nobody speaks that fast. A part that is
        repeated 20 times or more is kept once, as Qwen does it, and so are loops of words.

        Raises:
            LanguageError: the model does not know the language.
            ContextError: the context does not fit the model.
            EngineError: the engine failed.
        """
        name = find_language(language).check_spoken(aligned=False).name
        seconds = len(audio) / SAMPLE_RATE
        if seconds < SHORTEST_S:
            return Transcript("", requests=0)
        ids = self._prompt.ids(name, context)
        known = self._model.tokenizer.encode(expected, add_special_tokens=False)
        longest = longest_answer(seconds, self._model.tokenizer, name)
        answer = self._model.generate(ids, padded(audio), longest, known)
        text: str | None = None
        if answer.ended:
            said = self._model.tokenizer.decode(answer.token_ids, skip_special_tokens=True)
            text = said_once(self._model.processor.extract_transcription(said))
        return Transcript(text, answer.steps, answer.requests)


def said_once(text: str) -> str:
    """Leave out what loops of the model repeat."""
    words = split_words(text)
    end = said = len(words)
    while end:
        start = loop_start(words[:end])
        if start is None:
            end -= 1
        else:
            del words[start:end]
            end = start
    return text if len(words) == said else join_words(words)


def padded(audio: FloatArray) -> FloatArray:
    """Lengthen very short audio to what the audio encoder was trained on."""
    missing = round(_PADDED_S * SAMPLE_RATE) - len(audio)
    return np.pad(audio, (0, missing)) if missing > 0 else audio
