"""The cascade (Figure 1 of the paper): engines that streams share, and new streams on them."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignatt_agent.config.agent_config import ModelsConfig
from alignatt_agent.config.languages import Language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import pool
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import (
    AudioModel,
    EncoderDecoderModel,
    SpeechModel,
    TimingModel,
)
from alignatt_agent.schedule import AsynchronousStream, OverlappedStream
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.front_ends import (
    GEMMA4_AUDIO,
    WHISPER,
    GemmaPrompt,
    PlainRecognizer,
    WhisperPrompt,
)
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.speech.recognizer import QwenRecognizer
from alignatt_agent.stopwatch import Stopwatch
from alignatt_agent.stream import Stream
from alignatt_agent.target_stream import TargetStream
from alignatt_agent.translation.captions import Captions
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import (
    SAMPLE_RATE,
    Aligner,
    FloatArray,
    Prompt,
    Readout,
    Recognizer,
    TranslationEngine,
)

SCHEDULES: dict[str, type[Stream]] = {
    "sync": Stream,
    "overlap": OverlappedStream,
    "async": AsynchronousStream,
}


def open_stream(
    resolved: Resolved,
    engines: Engines,
    source: Language,
    targets: Sequence[Language],
    context: str = "",
) -> Stream:
    """Open a new stream on the engines.

    Args:
        resolved: the configuration with its head sets.
        engines: models that streams share.
        source: the spoken language.
        targets: the languages of the translations; the spoken one gets captions.
        context: names and terms of the talk.

    Raises:
        HeadSetError: the configuration has no head set for a direction.
    """
    config, watch = resolved.config, Stopwatch()
    verify = config.debug.verify_transcripts
    tail = LiveTail(
        engines.asr, engines.aligner, source.code, config.speech, watch, context, verify
    )
    target_streams = {
        target.code: TargetStream(Captions())
        if target.code == source.code
        else _target_stream(resolved, engines, source, target, context)
        for target in targets
    }
    stream = SCHEDULES[config.schedule](tail, target_streams, watch)
    if config.debug.draft_ahead and config.schedule == "sync":
        tail.on_hypothesis = stream.draft_ahead  # no other chunk is being translated then
    return stream


def _target_stream(
    resolved: Resolved, engines: Engines, source: Language, target: Language, context: str
) -> TargetStream:
    config, watch = resolved.config, Stopwatch()
    policy, readout = config.policy_for(target.code), None
    # Without a gate the rows still give the source word of an emitted token.
    if policy.reads != "tokens" or target.code in config.head_sets:
        readout = resolved.readout(source, target)
    translator = Translator(
        engine=engines.translation,
        prompt_builder=PromptBuilder.of(engines.tokenizer, config.prompt, source, target, context),
        tokenizer=engines.tokenizer,
        readout=readout,
        policy=policy,
        spaced=target.spaced,
        max_draft_tokens=config.max_draft_tokens,
        early_stop=config.debug.early_stop,
        verify=config.debug.verify_drafts,
        watch=watch,
    )
    return TargetStream(translator, watch, config.access_for(target.code))


@dataclass(frozen=True, slots=True)
class Engines:
    """Models that the streams of a process share; tokenizer and sizes are of the translation."""

    asr: Recognizer
    aligner: Aligner
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


_lock = threading.Lock()
_assembled: tuple[str, Engines] | None = None


def chunks(resolved: Resolved, audio: FloatArray) -> Iterator[FloatArray]:
    """Cut audio, ``[samples]``, into the chunks of a configuration."""
    size = SAMPLE_RATE * resolved.config.chunk_ms // 1000
    return (audio[begin : begin + size] for begin in range(0, len(audio), size))


def load_engines(
    checkpoints: ModelsConfig, heads: Sequence[tuple[int, int]], recognizer: str = "qwen3-asr"
) -> Engines:
    """Start the three engines of this process and warm them up.

    Calls with equal arguments return the same engines. An engine that died, or whose arguments
    changed, is started again; the others keep running. ``heads`` are all ``(layer, head)`` whose
    attention rows drafts may read, ``recognizer`` is a family, see ``SpeechConfig``.

    Raises:
        EngineError: an engine did not start; the message names its model and the cause.
    """
    global _assembled
    wanted = sorted(set(heads))
    with _lock:
        key = _engine_key(checkpoints, wanted, recognizer)
        if _assembled is not None and _assembled[0] == key and pool.all_alive():
            return _assembled[1]
        _assembled = None
        try:
            served = pool.pooled(checkpoints, wanted)
        finally:
            # The last handler runs first: before vLLM and multiprocessing end the engines.
            atexit.unregister(shutdown)
            atexit.register(shutdown)
        text = served["translation"].config.hf_text_config
        engines = Engines(
            asr=serve_recognizer(recognizer, served["asr"]),
            aligner=QwenAligner(TimingModel(served["aligner"])),
            translation=pool.draft_engine(served["translation"], wanted),
            tokenizer=served["translation"].tokenizer(),
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
        )
        _warm_up(engines, wanted)
        _assembled = (key, engines)
        return engines


def load_resolved(resolved: Resolved) -> Engines:
    """Start the engines of a configuration, see ``load_engines``."""
    return load_engines(resolved.checkpoints, resolved.heads, resolved.config.speech.recognizer)


def loaded(resolved: Resolved) -> Engines | None:
    """Return the engines of this process if they were loaded for such a configuration."""
    key = _engine_key(resolved.checkpoints, resolved.heads, resolved.config.speech.recognizer)
    held = _assembled  # read once and without the lock: another thread may load for a minute
    return held[1] if held is not None and held[0] == key else None


def _engine_key(checkpoints: ModelsConfig, heads: Sequence[tuple[int, int]], asr: str) -> str:
    """Identify engines by the keys of a configuration that they depend on."""
    return json.dumps([checkpoints.model_dump(mode="json"), list(heads), asr])


def serve_recognizer(family: str, served: ServedModel) -> Recognizer:
    """Return the recognizer of a family on its engine."""
    if family == WHISPER:
        whisper = EncoderDecoderModel(served)
        return PlainRecognizer(whisper, WhisperPrompt(whisper.tokenizer, whisper.name))
    if family == GEMMA4_AUDIO:
        model = AudioModel(served)
        return PlainRecognizer(model, GemmaPrompt(model.tokenizer, model.name, model.window))
    return QwenRecognizer(SpeechModel(served))


def shutdown() -> None:
    """End all engines of this process; they can be loaded again."""
    global _assembled
    with _lock:
        _assembled = None
        pool.end_all()


def _warm_up(engines: Engines, heads: Sequence[tuple[int, int]]) -> None:
    """Send one request of each kind: the first chunk is not slower, and missing rows show early."""
    audio = np.random.default_rng(0).standard_normal(2 * SAMPLE_RATE).astype(np.float32) * 0.01
    engines.asr.transcribe(audio, "en", expected="warm up")
    engines.aligner.align(audio, "warm up", "en")
    prompt = Prompt(tuple(engines.tokenizer.encode("warm up " * 8))[:16], 1, (0, 0))
    for row in ("predicting", "emitted"):
        readout = Readout(tuple(heads), row) if heads else None
        engines.translation.draft(prompt, 4, readout)
