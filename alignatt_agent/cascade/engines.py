"""Build the engines that streams share from served models, and warm them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from alignatt_agent.engine.cpu_whisper import CpuWhisper
from alignatt_agent.engine.options import on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import (
    AudioModel,
    EncoderDecoderModel,
    SpeechModel,
    TimingModel,
)
from alignatt_agent.speech.aligner import QwenAligner, WhisperAligner
from alignatt_agent.speech.front_ends import (
    GEMMA4_AUDIO,
    LONGEST_S,
    WHISPER,
    GemmaPrompt,
    WhisperPrompt,
)
from alignatt_agent.speech.prompt import RecognitionPrompt
from alignatt_agent.speech.recognizer import PromptedRecognizer
from alignatt_agent.types import SAMPLE_RATE, Prompt
from alignatt_agent.types.engines import Aligner, Readout, TranslationEngine


@dataclass(frozen=True, slots=True)
class Engines:
    """Models that all streams of a process share.

    ``tokenizer`` and the sizes are those of the translation model. ``aligner`` is ``None`` if
    neither ``models.aligner`` nor the recognizer computes word timestamps.
    """

    asr: PromptedRecognizer
    aligner: Aligner | None
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


WARM_TOKENS, WARM_SECONDS = (1, 16, 300, 1200), (1, 5, 20)
"""Sizes of warm-up requests: prompt lengths in tokens, and audio lengths in seconds. They cover the
first minute of a stream, because some GPU kernels are compiled when a size is first used. On a CPU,
only the smallest size is requested: nothing is compiled, and the other sizes' 2,700 tokens would
take 20 s in a model with 1.5 billion parameters."""

_WARM_DRAFT = 4


def serve_speech(
    family: str, asr: ServedModel | CpuWhisper, aligner: ServedModel | None = None
) -> tuple[PromptedRecognizer, Aligner | None]:
    """Return the recognizer of ``family``, and its aligner or ``None``."""
    if isinstance(asr, CpuWhisper):
        return _whisper(asr), WhisperAligner(asr)
    features = None
    if family == WHISPER:
        recognizer = _whisper(EncoderDecoderModel(asr))
    elif family == GEMMA4_AUDIO:
        model = AudioModel(asr)
        gemma = GemmaPrompt(model.tokenizer, model.name, asr.config.max_model_len)
        recognizer = PromptedRecognizer(model, gemma, LONGEST_S)
    else:
        qwen = SpeechModel(asr)
        prompt = RecognitionPrompt(qwen.processor, qwen.tokenizer, qwen.name)
        recognizer, features = PromptedRecognizer(qwen, prompt), qwen.features
    return recognizer, QwenAligner(TimingModel(aligner, features)) if aligner else None


def _whisper(model: Any) -> PromptedRecognizer:
    return PromptedRecognizer(model, WhisperPrompt(model.tokenizer, model.name), LONGEST_S)


def warm_up(engines: Engines, heads: Sequence[tuple[int, int]], window: int) -> None:
    """Send requests of each kind and size, to compile kernels and to detect missing rows."""
    noise, sizes = np.random.default_rng(0), 1 if on_cpu() else None
    for seconds in WARM_SECONDS[:sizes]:
        audio = noise.standard_normal(seconds * SAMPLE_RATE).astype(np.float32) * 0.01
        engines.asr.transcribe(audio, "en", expected="warm up")
        if engines.aligner is not None:
            engines.aligner.align(audio, "warm up", "en")
    for count, row in product(WARM_TOKENS[:sizes], ("predicting", "emitted")):
        text = f"{count} {row} {'warm up ' * count}"  # a common prefix would be cached
        ids = tuple(engines.tokenizer.encode(text))[: min(count, window - _WARM_DRAFT - 1)]
        readout = Readout(tuple(heads), row) if heads else None  # type: ignore[arg-type]
        engines.translation.draft(Prompt(ids, 0, (0,) * len(ids)), _WARM_DRAFT, readout)
