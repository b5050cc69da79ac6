"""Build the engines that streams share from served models, and warm them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from alignatt_agent.engine.cpu_whisper import CpuWhisper
from alignatt_agent.engine.environment import on_cpu
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
from alignatt_agent.types.engines import (
    Aligner,
    DraftRequest,
    Readout,
    Recognizer,
    Row,
    TranslationEngine,
)


@dataclass(frozen=True, slots=True)
class Engines:
    """Models that all streams of a process share.

    ``tokenizer`` and the sizes are those of the translation model. ``aligner`` is ``None`` if
    neither ``models.aligner`` nor the recognizer computes word timestamps.
    """

    asr: Recognizer
    aligner: Aligner | None
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


WARM_TOKENS = (1, 16, 300, 1200)
"""Prompt lengths of warm-up requests, in tokens."""

WARM_SECONDS = (1, 5, 20)
"""Audio lengths of warm-up requests, in seconds. These sizes and ``WARM_TOKENS`` cover the first
minute of a stream, because some GPU kernels are compiled when a size is first used. On a CPU,
only the smallest size is requested: nothing is compiled, and the other sizes' 2,700 tokens would
take 20 s in a model with 1.5 billion parameters."""

_WARM_DRAFT = 4


def serve_speech(
    family: str, asr: ServedModel | CpuWhisper, aligner: ServedModel | None = None
) -> tuple[Recognizer, Aligner | None]:
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
        recognizer = PromptedRecognizer(qwen, prompt)
        # The aligner receives the same audio, so its features are computed only once.
        features = qwen.features
    if aligner is None:
        return recognizer, None
    return recognizer, QwenAligner(TimingModel(aligner, features))


def _whisper(model: CpuWhisper | EncoderDecoderModel) -> PromptedRecognizer:
    prompt = WhisperPrompt(model.tokenizer, model.name)
    return PromptedRecognizer(model, prompt, LONGEST_S)


def warm_up(engines: Engines, heads: Sequence[tuple[int, int]], window: int) -> None:
    """Send requests of each kind and size, to compile kernels and to detect missing rows."""
    generator = np.random.default_rng(0)
    lengths_s: Sequence[int] = WARM_SECONDS
    token_counts: Sequence[int] = WARM_TOKENS
    if on_cpu():
        # No kernels are compiled, so one request of each kind shows whether rows are missing.
        lengths_s = WARM_SECONDS[:1]
        token_counts = WARM_TOKENS[:1]
    for seconds in lengths_s:
        noise = generator.standard_normal(seconds * SAMPLE_RATE).astype(np.float32)
        # Silence would not be transcribed.
        audio = noise * 0.01
        engines.asr.transcribe(audio, "en", expected="warm up")
        if engines.aligner is not None:
            engines.aligner.align(audio, "warm up", "en")
    # The draft and at least one more token must fit into the window.
    longest = window - _WARM_DRAFT - 1
    rows: tuple[Row, ...] = ("predicting", "emitted")
    for count, row in product(token_counts, rows):
        # The text begins differently each time, because a common prefix would be cached.
        text = f"{count} {row} {'warm up ' * count}"
        ids = tuple(engines.tokenizer.encode(text))
        ids = ids[: min(count, longest)]
        prompt = Prompt(ids, source_start=0, token_word=(0,) * len(ids))
        readout = None
        if heads:
            readout = Readout(tuple(heads), row)
        engines.translation.draft(DraftRequest(prompt, _WARM_DRAFT, readout))
