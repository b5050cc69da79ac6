"""Engines that all streams of a process share: started, warmed up, started again."""

import atexit
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from alignatt_agent.config.agent_config import ModelsConfig
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import pool
from alignatt_agent.engine.cpu_whisper import CpuWhisper
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import (
    AudioModel,
    EncoderDecoderModel,
    SpeechModel,
    TimingModel,
)
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.front_ends import (
    GEMMA4_AUDIO,
    LONGEST_S,
    WHISPER,
    GemmaPrompt,
    WhisperPrompt,
)
from alignatt_agent.speech.prompt import RecognitionPrompt
from alignatt_agent.speech.recognizer import PromptedRecognizer
from alignatt_agent.speech.whisper_aligner import WhisperAligner
from alignatt_agent.types import SAMPLE_RATE, Prompt
from alignatt_agent.types.engines import Aligner, Readout, Recognizer, TranslationEngine


@dataclass(frozen=True, slots=True)
class Engines:
    """Models that the streams of a process share; tokenizer and sizes are of the translation.

    There is no aligner where ``models.aligner`` names none.
    """

    asr: Recognizer
    aligner: Aligner | None
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


WARM_TOKENS, WARM_SECONDS = (1, 16, 300, 1200), (1, 5, 20)
"""Sizes of the requests that warm up engines: tokens of prompts, and seconds of audio. Those of the
first minute of a stream lie between; kernels of a GPU compile for some sizes on first use. On a CPU
nothing does, so the smallest ones do: the others take 2,700 tokens, 20 s of a model of 1.5 billion
parameters."""

_WARM_DRAFT = 4
_lock = threading.Lock()
_assembled: tuple[tuple[Any, ...], Engines] | None = None  # by what they depend on


def load_engines(
    checkpoints: ModelsConfig, heads: Sequence[tuple[int, int]], recognizer: str = "qwen3-asr"
) -> Engines:
    """Start the engines of this process and warm them up.

    Calls with equal arguments return the same engines. One that died, or whose arguments changed,
    is started again; the others keep running. Drafts may read attention rows of ``heads``, each
    ``(layer, head)``; ``recognizer`` is a family, see ``SpeechConfig``.

    Raises:
        EngineError: an engine did not start; the message names its model and the cause.
    """
    global _assembled
    wanted = sorted(set(heads))
    with _lock:
        key = (checkpoints, wanted, recognizer)
        held = _assembled if _assembled is not None and _assembled[0] == key else None
        if held is not None and pool.all_alive():
            return held[1]
        _assembled, begin = None, time.monotonic()
        try:
            served = pool.pooled(checkpoints, wanted)
        finally:
            # The last handler runs first: before vLLM and multiprocessing end the engines.
            atexit.unregister(shutdown)
            atexit.register(shutdown)
        text = served["translation"].config.hf_text_config
        asr: ServedModel | CpuWhisper = served["asr"]
        if checkpoints.asr.runtime == "ctranslate2":
            asr = CpuWhisper(checkpoints.asr.path, **checkpoints.asr.engine)
        engines = Engines(
            asr=serve_recognizer(recognizer, asr),
            aligner=serve_aligner(asr, served),
            translation=DraftEngine(served["translation"], wanted),
            tokenizer=served["translation"].tokenizer(),
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
        )
        if held is None:  # else a stream waits; it compiles what it needs, and no more
            _warm_up(engines, wanted, served["translation"].config.max_model_len)
        caches = ", ".join(f"{role} {served[role].cache_tokens:,}" for role in served)
        took = f"engines ready after {time.monotonic() - begin:.1f} s; tokens in vLLM's caches: "
        print(took + caches, file=sys.stderr, flush=True)
        _assembled = (key, engines)
        return engines


def load_resolved(resolved: Resolved) -> Engines:
    """Start the engines of a configuration, see ``load_engines``."""
    return load_engines(resolved.checkpoints, resolved.heads, resolved.config.speech.recognizer)


def loaded(resolved: Resolved) -> Engines | None:
    """Return the engines of this process if they were loaded for such a configuration."""
    key = (resolved.checkpoints, list(resolved.heads), resolved.config.speech.recognizer)
    held = _assembled  # read once and without the lock: another thread may load for a minute
    return held[1] if held is not None and held[0] == key else None


def serve_aligner(
    asr: ServedModel | CpuWhisper, served: Mapping[str, ServedModel]
) -> Aligner | None:
    """Return the forced aligner, or what times the words of a Whisper in this process."""
    if isinstance(asr, CpuWhisper):
        return WhisperAligner(asr)
    return QwenAligner(TimingModel(served["aligner"])) if "aligner" in served else None


def serve_recognizer(family: str, served: ServedModel | CpuWhisper) -> Recognizer:
    """Return the recognizer of a family on its engine."""
    if isinstance(served, CpuWhisper) or family == WHISPER:
        whisper: Any = served if isinstance(served, CpuWhisper) else EncoderDecoderModel(served)
        return PromptedRecognizer(
            whisper, WhisperPrompt(whisper.tokenizer, whisper.name), LONGEST_S
        )
    if family == GEMMA4_AUDIO:
        model = AudioModel(served)
        gemma = GemmaPrompt(model.tokenizer, model.name, model.window)
        return PromptedRecognizer(model, gemma, LONGEST_S)
    qwen = SpeechModel(served)
    return PromptedRecognizer(qwen, RecognitionPrompt(qwen.processor, qwen.tokenizer, qwen.name))


def shutdown() -> None:
    """End all engines of this process; they can be loaded again."""
    global _assembled
    with _lock:
        _assembled = None
        pool.end_all()


def _warm_up(engines: Engines, heads: Sequence[tuple[int, int]], window: int) -> None:
    """Send requests of each kind and size: no first chunk compiles, missing rows show early."""
    noise, sizes = np.random.default_rng(0), 1 if on_cpu() else None
    for seconds in WARM_SECONDS[:sizes]:
        audio = noise.standard_normal(seconds * SAMPLE_RATE).astype(np.float32) * 0.01
        engines.asr.transcribe(audio, "en", expected="warm up")
        if engines.aligner is not None:
            engines.aligner.align(audio, "warm up", "en")
    for count, row in product(WARM_TOKENS[:sizes], ("predicting", "emitted")):
        text = f"{count} {row} {'warm up ' * count}"  # no two share a prefix, which is cached
        ids = tuple(engines.tokenizer.encode(text))[: min(count, window - _WARM_DRAFT - 1)]
        readout = Readout(tuple(heads), row) if heads else None  # type: ignore[arg-type]
        engines.translation.draft(Prompt(ids, 0, (0,) * len(ids)), _WARM_DRAFT, readout)
