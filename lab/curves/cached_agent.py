"""The agent with cached engines. Its logs contain the times of the first computation."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.talk_jobs import TalkResult, stream_talk
from alignatt_agent.machine.packages import versions
from alignatt_agent.types import Draft, FloatArray, Transcript
from alignatt_agent.types.engines import AlignedItem, DraftRequest, TranslationEngine
from lab.curves.shared_drafts import DRAFT_FORM, SharedDrafts, form_of

T = TypeVar("T")

StartEngines = Callable[[ModelsConfig, Sequence[tuple[int, int]], str], Engines]

_SPEECH_FORM = form_of(AlignedItem, Transcript)


class TimedCache(ResultCache):
    """Thread-safe cache of results and their times."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(path)
        self._lock = threading.Lock()
        self._computing: dict[bytes, threading.Lock] = {}
        self._clock = clock
        self.spent = 0.0  # seconds that all results took to compute, cached ones included
        self.computed = 0  # results that were not cached

    def get_or_compute(self, key: bytes, compute: Callable[[], T]) -> T:
        """Return the result under ``key``; compute, time and store a missing result.

        A thread that needs a result that another thread computes waits for it.
        """
        with self._lock:
            # A lock per result, so that threads can compute different results at the same time.
            computing = self._computing.setdefault(key, threading.Lock())
        with computing:
            with self._lock:
                stored: tuple[T, float] | None = self.get(key)
            if stored is None:
                begin = self._clock()
                result = compute()
                stored = result, self._clock() - begin
                with self._lock:
                    self.put(key, stored)
                    self.computed += 1
        result, seconds = stored
        with self._lock:
            self._computing.pop(key, None)
            self.spent += seconds
        return result


class CachedSpeech:
    """A recognizer or aligner that caches its results.

    ``name`` identifies a checkpoint and how it runs.
    """

    def __init__(self, engine: Any, cache: TimedCache, name: str = "") -> None:
        self._engine, self._cache, self._name = engine, cache, name

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``; ``expected`` does not change it."""
        key = key_of("transcribe", _SPEECH_FORM, self._name, audio.tobytes(), language, context)
        return self._cache.get_or_compute(
            key, lambda: self._engine.transcribe(audio, language, context, expected)
        )

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the timed words of ``text``."""
        key = key_of("align", _SPEECH_FORM, self._name, audio.tobytes(), text, language)
        return self._cache.get_or_compute(key, lambda: self._engine.align(audio, text, language))


class CachedDrafts:
    """A translation engine that caches drafts by prompt and heads.

    Only whole drafts are cached. They depend only on the prompt, so every policy, frontier
    and hold-back can use them.
    """

    def __init__(self, engine: TranslationEngine, cache: TimedCache, name: str) -> None:
        self._engine, self._cache, self._name = engine, cache, name

    def draft(self, request: DraftRequest) -> Draft:
        """Return the whole draft of a prompt, see ``types.TranslationEngine``."""
        if request.gate is not None or request.resumed is not None:
            raise ValueError("only whole drafts are cached: set debug.early_stop: false")
        prompt = request.prompt
        key = key_of(
            "draft",
            DRAFT_FORM,
            self._name,
            np.asarray(prompt.token_ids, np.int64).tobytes(),
            prompt.source_start,
            prompt.source_end,
            request.max_tokens,
            repr(request.readout),
            *request.excluded,
        )
        return self._cache.get_or_compute(key, lambda: self._engine.draft(request))


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """The engines that all runs of a sweep share, in any process that loads them."""

    start: StartEngines | None  # importable; default: ``Runtime.load_engines``
    config: AgentConfig  # its models are planned where they are loaded
    heads: tuple[tuple[int, int], ...]  # of all head sets
    cache: Path | None  # file of the cache; ``None`` keeps results in memory
    shared: bool = False  # whether policies share parts of drafts, which are then not timed


def _engine_names(resolved: Resolved) -> dict[str, str]:
    """Return what the results of each model depend on: checkpoint, precision and versions."""
    packages = versions()
    names: dict[str, str] = {}
    for role, identity in resolved.identities().items():
        dtype = getattr(resolved.checkpoints, role).dtype
        names[role] = f"{identity}:{dtype}:{packages['vllm']}:{packages['torch']}"
    return names


class CachedRuntime(Runtime):
    """A runtime that uses the cached engines of ``open`` for any configuration."""

    cache: TimedCache | None = None
    _cached: Engines | None = None

    def open(self, setup: EngineSetup) -> Engines:
        """Load the engines of a sweep behind the cache."""
        if self.cache is None:
            self.cache = TimedCache(setup.cache)
        cache = self.cache
        resolved = self.resolve(setup.config)
        names = _engine_names(resolved)
        start = setup.start or self.load_engines
        engines = start(resolved.checkpoints, setup.heads, setup.config.speech.recognizer)
        aligner: CachedSpeech | None = None
        if engines.aligner is not None:
            # Without a model of its own, the aligner uses the recognizer's.
            name = names.get("aligner", names["asr"])
            aligner = CachedSpeech(engines.aligner, cache, name)
        drafts = SharedDrafts if setup.shared else CachedDrafts
        self._cached = replace(
            engines,
            asr=CachedSpeech(engines.asr, cache, names["asr"]),
            aligner=aligner,
            translation=drafts(engines.translation, cache, names["translation"]),
        )
        return self._cached

    def check(self, resolved: Resolved, longest_s: float | None = None) -> None:
        """Do nothing: the engines of ``open`` serve all configurations."""

    def load(self, resolved: Resolved) -> Engines:
        """Return the engines behind the cache."""
        assert self._cached is not None
        return self._cached

    loaded = load

    def close(self) -> None:
        """Close the cache and end the engines."""
        if self.cache is not None:
            self.cache.close()
        self.cache = self._cached = None
        super().close()


class CachedAgent(AlignAttAgent):
    """Streams on the engines of a sweep."""

    runtime: ClassVar[CachedRuntime] = CachedRuntime()


def stream_cached(setup: EngineSetup, run: EvalRun, recording: bytes) -> TalkResult:
    """Stream a run of one talk in this process, see ``stream_talk``."""
    runtime = CachedAgent.runtime
    runtime.open(setup)
    assert runtime.cache is not None
    with _engine_seconds(runtime.cache):
        result = stream_talk(run, recording)
    result.logs.pop("records", None)  # drafts of hours of speech would fill disks
    return result


@contextmanager
def _engine_seconds(cache: TimedCache) -> Iterator[None]:
    """Log the time of the first computation as computation time, without Python's overhead."""
    before = cache.spent

    def rewrite(record: logging.LogRecord) -> bool:
        nonlocal before
        line = json.loads(record.getMessage())
        if "computation_time" in line:
            line["computation_time"] = cache.spent - before
            before = cache.spent
            record.msg = json.dumps(line)
        return True

    # A logger's filters see a record before the handlers write it.
    METRICS_LOGGER.addFilter(rewrite)
    try:
        yield
    finally:
        METRICS_LOGGER.removeFilter(rewrite)
