"""The cascade: the chunk step of one stream (Figure 1 of the paper), and what streams share."""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.config.agent_config import ModelsConfig
from alignatt_agent.config.languages import Language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import pool
from alignatt_agent.engine.speech_models import SpeechModel, TimingModel
from alignatt_agent.policy import build_policy
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.speech.recognizer import QwenRecognizer
from alignatt_agent.stopwatch import Stopwatch
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import (
    SAMPLE_RATE,
    Aligner,
    Emission,
    Prompt,
    Readout,
    Recognizer,
    SpeechUpdate,
    Step,
    TranslationEngine,
    Word,
)


class Session:
    """One stream: audio chunks in, append-only translation out.

    An exception of an engine leaves the session usable: audio and closed sentences wait for the
    next call, and units that were decided before the failure come with its step, or with
    ``drain``.

    Args:
        live_tail: the speech side.
        translator: the translation side.
        watch: the clock of both.

    Attributes:
        translator: the translation side.
    """

    def __init__(
        self, live_tail: LiveTail, translator: Translator, watch: Stopwatch | None = None
    ) -> None:
        self._live_tail = live_tail
        self.translator = translator
        self._watch = watch or Stopwatch()
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._live_tail.reset()
        self.translator.reset()
        self._sentences: deque[tuple[Word, ...]] = deque()
        self._retried = False
        self._undelivered = Emission()

    def step(self, chunk: npt.NDArray[Any]) -> Step:
        """Hear a chunk, ``[samples]``, and translate what it allows.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the stream may go on.
        """
        return self._advance(lambda: self._live_tail.push(chunk))

    def finish(self) -> Step:
        """Translate everything that was said to its end.

        Raises:
            EngineError: an engine failed; the call may be repeated.
        """
        return self._advance(self._live_tail.finish)

    def drain(self) -> Emission:
        """Return units that a failed call decided but could not deliver."""
        emission, self._undelivered = self._undelivered, Emission()
        return emission

    def _advance(self, hear: Callable[[], SpeechUpdate]) -> Step:
        translator = self.translator
        passes, emitted = translator.steps, translator.emitted
        self._watch.start()
        heard = hear()
        units = self._translate(heard).units
        return Step(
            audio_s=self._live_tail.now,
            heard=heard,
            judged=translator.judged,
            units=units,
            accepted=translator.emitted - emitted,
            passes=translator.steps - passes,
            seconds=self._watch.read(),
        )

    def _translate(self, heard: SpeechUpdate) -> Emission:
        self._sentences += heard.sentences
        while self._sentences:
            self._undelivered += self._complete(self._sentences[0])
            self._sentences.popleft()
        self._undelivered += self.translator.update(heard.live)
        return self.drain()

    def _complete(self, sentence: tuple[Word, ...]) -> Emission:
        """Finish a sentence; one that fails twice is given up, so that the stream can go on."""
        try:
            emission = self.translator.complete(sentence)
        except Exception:
            if self._retried:
                self._sentences.popleft()
                self.translator.reset()
            self._retried = not self._retried
            raise
        self._retried = False
        return emission


def build_session(
    resolved: Resolved,
    engines: Engines,
    source: Language,
    target: Language,
    clock: Callable[[], float] = time.perf_counter,
) -> Session:
    """Return the session of a new stream.

    Args:
        resolved: the configuration with its head sets.
        engines: what sessions share.
        source: the spoken language.
        target: the language of the translation.
        clock: seconds for the trace.

    Raises:
        HeadSetError: the configuration has no head set for the direction.
    """
    config, watch = resolved.config, Stopwatch(clock)
    readout = None
    # Without a gate the rows still tell which source word an emitted token translates.
    if config.policy.name == "alignatt" or target.code in config.head_sets:
        readout = resolved.head_set(source, target).readout(config.policy.top_k)
    translator = Translator(
        engine=engines.translation,
        prompt_builder=PromptBuilder.of(engines.tokenizer, config.prompt, source, target),
        tokenizer=engines.tokenizer,
        readout=readout,
        policy=build_policy(config.policy),
        spaced=target.spaced,
        max_draft_tokens=config.max_draft_tokens,
        early_stop=config.early_stop,
        watch=watch,
    )
    live_tail = LiveTail(engines.asr, engines.aligner, source.code, config.speech, watch)
    return Session(live_tail, translator, watch)


@dataclass(frozen=True, slots=True)
class Engines:
    """What the sessions of a process share.

    Attributes:
        asr: speech recognition.
        aligner: word times.
        translation: drafts with attention rows.
        tokenizer: fast Transformers tokenizer of the translation model.
        num_layers: decoder layers of the translation model.
        num_heads: attention heads per layer.
    """

    asr: Recognizer
    aligner: Aligner
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


_lock = threading.Lock()
_assembled: tuple[str, Engines] | None = None


def load_engines(checkpoints: ModelsConfig, heads: Sequence[tuple[int, int]]) -> Engines:
    """Start the three engines of this process and warm them up.

    Calls with equal arguments return the same engines. An engine that died, or whose arguments
    changed, is started again; the others keep running.

    Args:
        checkpoints: where the models are and how their engines run.
        heads: every ``(layer, head)`` whose attention rows any draft will ask for.

    Raises:
        EngineError: an engine did not start; the message names its model and the cause.
    """
    global _assembled
    wanted = sorted(set(heads))
    with _lock:
        key = json.dumps([checkpoints.model_dump(mode="json"), wanted])
        if _assembled is not None and _assembled[0] == key and pool.all_alive():
            return _assembled[1]
        _assembled = None
        try:
            served = pool.pooled(checkpoints, wanted)
        finally:
            # The last to be registered is the first to run: before vLLM and multiprocessing end
            # the engines' processes behind our back.
            atexit.unregister(shutdown)
            atexit.register(shutdown)
        text = served["translation"].config.hf_text_config
        engines = Engines(
            asr=QwenRecognizer(SpeechModel(served["asr"])),
            aligner=QwenAligner(TimingModel(served["aligner"])),
            translation=pool.draft_engine(served["translation"], wanted),
            tokenizer=served["translation"].tokenizer(),
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
        )
        _warm_up(engines, wanted)
        _assembled = (key, engines)
        return engines


def shutdown() -> None:
    """End all engines of this process; they can be loaded again."""
    global _assembled
    with _lock:
        _assembled = None
        pool.end_all()


def _warm_up(engines: Engines, heads: Sequence[tuple[int, int]]) -> None:
    """Send one request of each kind, so that the first chunk of a stream is not slower.

    It also shows at start-up, not in mid-stream, that rows arrive.
    """
    audio = np.random.default_rng(0).standard_normal(2 * SAMPLE_RATE).astype(np.float32) * 0.01
    engines.asr.transcribe(audio, "en")
    engines.aligner.align(audio, "warm up", "en")
    prompt = Prompt(tuple(engines.tokenizer.encode("warm up " * 8))[:16], 1, (0, 0))
    for row in ("predicting", "emitted"):
        readout = Readout(tuple(heads), row) if heads else None
        engines.translation.draft(prompt, 4, readout)
