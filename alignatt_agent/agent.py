"""``AlignAttAgent``: the one class that Simulstream sees."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from simulstream.server.speech_processors import SpeechProcessor
from simulstream.server.speech_processors.incremental_output import IncrementalOutput

from alignatt_agent.cascade import Session
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.checkpoints import locate
from alignatt_agent.config.head_sets import HeadSet, HeadSetError, load_head_set
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.policy import build_policy
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import SAMPLE_RATE

if TYPE_CHECKING:
    from alignatt_agent.engine.pool import Engines

LOGGER = logging.getLogger(__name__)

FINISH_ATTEMPTS = 3
"""The end of a stream is tried again after an error: there is no later chunk to do it."""

Heads = tuple[tuple[int, int], ...]


class SessionObserver(Protocol):
    """Watches the streams of a process, for diagnostics."""

    def engines(self, engines: Engines) -> Engines:
        """Return the engines of a new session, wrapped or as they are."""

    def session(self, session: Session) -> Session:
        """Return the new session, wrapped or as it is."""


class AlignAttAgent(SpeechProcessor):  # type: ignore[misc]  # simulstream is untyped
    """Speech in, append-only translation out.

    Engines are loaded once per process and shared by every processor; what belongs to a stream
    belongs to the instance. A processor may be called from any thread: Simulstream's servers hop
    threads, and the HTTP server clears an expired session while a chunk is still running.

    Args:
        config: what Simulstream made of the YAML file.
    """

    failures: ClassVar[list[str]] = []
    """Errors of this process so far, for tools that must not take a cut output for a good one."""

    observer: ClassVar[SessionObserver | None] = None
    """Sees every session that is opened from now on."""

    _engines: ClassVar[dict[str, Engines]] = {}
    _loading: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._config = AgentConfig.from_namespace(config)
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._source: Language | None = None
        self._target: Language | None = None
        self._set_default_languages()

    @property
    def speech_chunk_size(self) -> float:
        """Seconds of audio per step."""
        return self._config.chunk_ms / 1000

    @classmethod
    def load_model(cls, config: SimpleNamespace) -> None:
        """Load and warm up the engines; a second call with the same models does nothing.

        Raises:
            ConfigError: the configuration is not valid.
            CheckpointError: a checkpoint is missing.
            HeadSetError: a head set belongs to another model or direction.
        """
        parsed = AgentConfig.from_namespace(config)
        head_sets = check_head_sets(parsed)
        with cls._loading:
            key = _engine_key(parsed)
            if key not in cls._engines:
                engines = cls._start_engines(parsed, _heads_to_read(parsed, head_sets))
                check_head_sets(parsed, engines.num_layers, engines.num_heads)
                cls._engines[key] = engines

    @classmethod
    def _start_engines(cls, config: AgentConfig, heads: Heads) -> Engines:
        from alignatt_agent.engine.pool import load_engines

        return load_engines(locate(config.models), heads)

    @classmethod
    def shutdown(cls) -> None:
        """Stop the engines of this process."""
        with cls._loading:
            if cls._engines:
                cls._engines.clear()
                cls._stop_engines()

    @classmethod
    def _stop_engines(cls) -> None:
        from alignatt_agent.engine.pool import shutdown

        shutdown()

    def set_source_language(self, language: str) -> None:
        """Choose the spoken language of the next stream by code or name."""
        self._source = self._choose(language)

    def set_target_language(self, language: str) -> None:
        """Choose the language of the translation by code or name."""
        self._target = self._choose(language)

    def process_chunk(self, waveform: np.ndarray[Any, Any]) -> IncrementalOutput:
        """Process the next piece of audio.

        Args:
            waveform: mono float samples at 16 kHz, ``[samples]``; may be read-only.

        Raises:
            Exception: an engine or a setting failed. Simulstream then ends the stream; what was
                emitted stays.
        """
        with self._lock:
            try:
                units = self._open_session().step(waveform).units
            except Exception as error:
                self._report("process_chunk", error)
                # A short piece comes from inside MessageProcessor.end_of_stream, where an
                # exception would leave a WebSocket client waiting for ever.
                if len(waveform) >= round(self.speech_chunk_size * SAMPLE_RATE):
                    raise
                units = self._session.drain().units if self._session is not None else ()
            return self._output(units)

    def end_of_stream(self) -> IncrementalOutput:
        """Finish the open utterance; errors are reported, never raised (see ``process_chunk``)."""
        with self._lock:
            units: tuple[str, ...] = ()
            for _ in range(FINISH_ATTEMPTS if self._session is not None else 0):
                assert self._session is not None
                try:
                    units += self._session.finish().units
                    break
                except Exception as error:
                    self._report("end_of_stream", error)
                    units += self._session.drain().units
            return self._output(units)

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Join units as a client has to append them: each spaced word brings its own space."""
        spaced = self._target.spaced if isinstance(self._target, Language) else True
        return "".join(f" {token}" if spaced else token for token in tokens)

    def clear(self) -> None:
        """Forget the stream and return to the configured languages; safe at any time."""
        with self._lock:
            self._session = None
            self._set_default_languages()

    def _set_default_languages(self) -> None:
        target = self._config.target_language
        self._source = language(self._config.source_language)
        self._target = language(target) if target else None

    def _choose(self, name: str) -> Language | None:
        with self._lock:
            self._session = None
            try:
                return language(name)
            except LanguageError:
                # The WebSocket server only logs this error and streams on: leave no language
                # behind, so that the first chunk fails instead of speaking another language.
                self._source = self._target = None
                raise

    def _open_session(self) -> Session:
        if self._session is None:
            if self._source is None or self._target is None:
                raise ConfigError(
                    "no target language: start the client with --tgt-lang, "
                    "or set target_language in the configuration"
                )
            self._session = self._new_session(self._source, self._target)
        return self._session

    def _new_session(self, source: Language, target: Language) -> Session:
        engines = type(self)._engines[_engine_key(self._config)]
        if self.observer is None:
            return build_session(self._config, engines, source, target)
        observed = self.observer.engines(engines)
        return self.observer.session(build_session(self._config, observed, source, target))

    def _output(self, units: Sequence[str]) -> IncrementalOutput:
        # Scorers count units by Unicode white space: no unit may contain any.
        tokens = [part for unit in units for part in unit.split()]
        return IncrementalOutput(tokens, self.tokens_to_string(tokens), [], "")

    def _report(self, where: str, error: Exception) -> None:
        message = f"{where}: {type(error).__name__}: {error}"
        self.failures.append(message)
        LOGGER.error(
            "%s failed; what was emitted before stays. %s", *message.split(": ", 1), exc_info=error
        )


def build_session(
    config: AgentConfig, engines: Engines, source: Language, target: Language
) -> Session:
    """Return the session of a new stream.

    Raises:
        HeadSetError: the configuration has no head set for the direction.
    """
    readout = None
    # Without a gate the rows still tell which source word an emitted token translates.
    if config.policy.name == "alignatt" or target.code in config.head_sets:
        readout = head_set_for(config, source, target).readout(config.policy.top_k)
    translator = Translator(
        engine=engines.translation,
        prompt_builder=PromptBuilder(engines.tokenizer, source.name, target.name),
        tokenizer=engines.tokenizer,
        readout=readout,
        policy=build_policy(config.policy),
        spaced=target.spaced,
        max_draft_tokens=config.max_draft_tokens,
        early_stop=config.early_stop,
    )
    return Session(LiveTail(engines.asr, engines.aligner, source.code, config.speech), translator)


def head_set_for(config: AgentConfig, source: Language, target: Language) -> HeadSet:
    """Return the configured head set of a direction.

    Raises:
        HeadSetError: the configuration has none for it.
    """
    name = config.head_sets.get(target.code)
    if name is None:
        known = ", ".join(config.head_sets) or "none"
        raise HeadSetError(
            f"no head set for {source.code}-{target.code}; the configuration has head_sets for "
            f"the targets {known}"
        )
    head_set = load_head_set(name)
    model = config.models.translation
    direction = f"{source.code}-{target.code}"
    head_set.check(model.path, None, None, direction, model.revision)
    return head_set


def check_head_sets(
    config: AgentConfig, num_layers: int | None = None, num_heads: int | None = None
) -> list[HeadSet]:
    """Load and check every configured head set before, and again after the model is loaded.

    Raises:
        HeadSetError: one belongs to another model, shape or direction.
    """
    source = language(config.source_language)
    targets = list(config.head_sets)
    target = config.target_language
    if target is not None and target not in targets and config.policy.name == "alignatt":
        targets.append(target)
    head_sets = [head_set_for(config, source, language(code)) for code in targets]
    model = config.models.translation
    for head_set in head_sets:
        head_set.top(config.policy.top_k)
        head_set.check(model.path, num_layers, num_heads, head_set.direction, model.revision)
    return head_sets


def _heads_to_read(config: AgentConfig, head_sets: list[HeadSet]) -> Heads:
    return tuple(sorted({head for item in head_sets for head in item.top(config.policy.top_k)}))


def _engine_key(config: AgentConfig) -> str:
    """Processors share engines when models and heads agree, whatever else differs."""
    return config.model_dump_json(
        include={"models": True, "head_sets": True, "policy": {"name", "top_k"}}
    )
