"""Speech recognition with Qwen3-ASR."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from alignatt_agent.types import SAMPLE_RATE, FloatArray

LANGUAGE_NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}
"""Names under which Qwen3-ASR was trained to force a language."""

SHORTEST_S = 0.1
"""Audio below this holds no word, in seconds."""

_PADDED_S = 0.5
"""Shorter audio is padded with silence, as the model was trained, in seconds."""

_TOKENS_PER_S, _TOKENS_AT_LEAST = 12, 24
"""Bound on a transcript; the fastest speakers stay below 8 tokens per second."""


class Generator(Protocol):
    """A model that continues token ids with audio among them."""

    tokenizer: Any

    def generate(self, token_ids: list[int], audio: FloatArray, max_tokens: int) -> list[int]:
        """Return the new token ids."""


class QwenRecognizer:
    """Transcribes a waveform, with the language forced.

    Args:
        model: the served Qwen3-ASR.
    """

    def __init__(self, model: Generator) -> None:
        self._model = model

    def transcribe(self, audio: FloatArray, language: str) -> str:
        """Return the transcript of ``audio`` (``[samples]``); too short audio gives ``""``.

        Raises:
            ValueError: the language is not known.
            EngineError: the engine failed.
        """
        if language not in LANGUAGE_NAMES:
            raise ValueError(
                f"no language {language!r} for speech; known: {sorted(LANGUAGE_NAMES)}"
            )
        seconds = len(audio) / SAMPLE_RATE
        if seconds < SHORTEST_S:
            return ""
        prompt = (
            "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\n"
            f"<|im_start|>assistant\nlanguage {LANGUAGE_NAMES[language]}<asr_text>"
        )
        ids = self._model.tokenizer.encode(prompt, add_special_tokens=False)
        # A degenerate loop must not hold up a chunk.
        limit = _TOKENS_AT_LEAST + round(_TOKENS_PER_S * seconds)
        answer = self._model.generate(ids, padded(audio), limit)
        text: str = self._model.tokenizer.decode(answer, skip_special_tokens=True)
        return text.strip()


def padded(audio: FloatArray) -> FloatArray:
    """Lengthen very short audio to what the audio encoder was trained on."""
    missing = round(_PADDED_S * SAMPLE_RATE) - len(audio)
    return np.pad(audio, (0, missing)) if missing > 0 else audio
