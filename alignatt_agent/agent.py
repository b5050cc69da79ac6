"""``AlignAttAgent``: the speech processor for Simulstream."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server.speech_processors import SpeechProcessor
from simulstream.server.speech_processors.incremental_output import IncrementalOutput

from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cascade.stream import Stream, StreamStep
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.types import SAMPLE_RATE, EngineError

LOGGER = logging.getLogger(__name__)

FINISH_ATTEMPTS = 3
"""Number of attempts to finish a stream, because no later chunk can retry after a failure."""

_ADDRESSED: ContextVar[Any] = ContextVar("addressed", default=None)
"""The agent whose languages the current client chose. Simulstream's WebSocket server serves every
connection in a task, and a task sees only the values that it has set itself."""


@dataclass(slots=True)
class _Session:
    """State of one client's stream.

    An agent replaces its session for the next client, and never resets it. A call that is still
    running keeps its own session, so it neither delays the next client nor writes into its stream.

    Attributes:
        source: the spoken language, or ``None`` after a refused choice.
        target: the target language; ``None`` if there is none, or after a refused choice.
        refused: message about a refused choice, by side (``source`` or ``target``).
        talk: stem of the recording's file name, if Simulstream logs it.
        stream: the stream, once the first chunk has opened it.
        lock: held while a chunk is processed.
    """

    source: Language | None
    target: Language | None
    refused: dict[str, str] = field(default_factory=dict)
    talk: str = ""
    stream: Stream | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class AlignAttAgent(SpeechProcessor):  # type: ignore[misc]  # simulstream is untyped
    """Translate speech into append-only text.

    All processors in a process share its engines; each instance holds one stream. An instance may
    be called from any thread: Simulstream's servers switch threads, and the HTTP server clears an
    expired session while a chunk is still being processed. The output of this chunk belongs to the
    old stream, and ``clear`` does not wait for it.
    """

    runtime: ClassVar[Runtime] = Runtime()
    """Shared by all processors in this process. For each client, Simulstream instantiates the agent
    by its class name and passes only the configuration."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._resolved = self.runtime.resolve(AgentConfig.from_namespace(config))
        self._config = self._resolved.config
        self._session = self._new_session()
        if isinstance(self._config.speech.context, dict):
            METRICS_LOGGER.addFilter(self._name_talk)  # adding it twice has no effect
            self.runtime.processors.add(self)

    @property
    def talk(self) -> str:
        """Stem of the recording's file name, if Simulstream logged it."""
        return self._session.talk

    @property
    def speech_chunk_size(self) -> float:
        """Seconds of audio per step."""
        return self._config.chunk_ms / 1000

    @classmethod
    def load_model(cls, config: SimpleNamespace) -> None:
        """Load and warm up the engines; engines that are already running are reused.

        Raises:
            AlignAttError: a configuration, checkpoint, head set or context is invalid.
        """
        resolved = cls.runtime.resolve(AgentConfig.from_namespace(config))
        cls.runtime.check(resolved)
        cls.runtime.load(resolved)
        for warning in resolved.other_prompts():
            if warning not in cls.runtime.warned:
                cls.runtime.warned.add(warning)
                LOGGER.warning("%s", warning)

    @classmethod
    def shutdown(cls) -> None:
        """Stop the engines; they can be loaded again."""
        cls.runtime.close()

    def set_source_language(self, language: str) -> None:
        """Choose the spoken language of the next stream by code or name."""
        self._choose("source", language)

    def set_target_language(self, language: str) -> None:
        """Choose the language of the translation by code or name."""
        self._choose("target", language)

    def process_chunk(self, waveform: np.ndarray[Any, Any]) -> IncrementalOutput:
        """Process the next piece of audio.

        Args:
            waveform: mono float samples at 16 kHz, ``[samples]``; may be read-only.

        Raises:
            Exception: an engine failed or a setting is wrong. Simulstream ends the stream; emitted
                units are kept.
        """
        session = self._session
        with session.lock:
            try:
                units = self._traced(self._open_stream(session).step(waveform))
            except Exception as error:
                self._report("process_chunk", error)
                # A short piece comes from MessageProcessor.end_of_stream, where an exception would
                # leave a WebSocket client waiting forever.
                if np.size(waveform) >= round(self.speech_chunk_size * SAMPLE_RATE):
                    raise
                units = _undelivered(session)
            return _output(units, session.target)

    def end_of_stream(self) -> IncrementalOutput:
        """Finish the open utterance; errors are logged, never raised (see ``process_chunk``)."""
        session = self._session
        with session.lock:
            units: tuple[str, ...] = ()
            if session.stream is not None:
                units = self._finish(session, session.stream)
            return _output(units, session.target)

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Join units into text to append, with a space before each unit of a spaced language."""
        return _joined(tokens, self._session.target)

    def clear(self) -> None:
        """Discard the stream and restore the configured languages; callable at any time."""
        self._session = self._new_session()

    def _finish(self, session: _Session, stream: Stream) -> tuple[str, ...]:
        """Return the last units of a stream; after a failure, finish it again."""
        units: tuple[str, ...] = ()
        for _ in range(FINISH_ATTEMPTS):
            try:
                return units + self._traced(stream.finish())
            except Exception as error:
                self._report("end_of_stream", error)
                units += _undelivered(session)
        return units

    def _new_session(self) -> _Session:
        session = _Session(source=language(self._config.source_language), target=None)
        if self._config.target_language:
            session.target = language(self._config.target_language)
        return session

    def _choose(self, side: Literal["source", "target"], name: str) -> None:
        """Start a session with another language; the same language does not end a stream."""
        _ADDRESSED.set(self)
        try:
            chosen = language(name)
            if side == "source":
                has_aligner = self._config.models.aligner is not None
                chosen = chosen.check_spoken(has_aligner, self._config.speech.recognizer)
        except LanguageError as error:
            # The WebSocket server only logs this error. Without a language, the first chunk fails
            # instead of emitting the wrong language.
            self._replace_language(side, None, {side: str(error)})
            raise
        session = self._session
        current = session.source if side == "source" else session.target
        if chosen != current:
            self._replace_language(side, chosen, {})

    def _replace_language(
        self, side: Literal["source", "target"], chosen: Language | None, refused: dict[str, str]
    ) -> None:
        session = self._session
        # A new choice replaces an earlier refusal of the same side.
        messages = dict(session.refused)
        messages.pop(side, None)
        messages.update(refused)
        replacement = _Session(
            source=session.source,
            target=session.target,
            refused=messages,
            talk=session.talk,
        )
        if side == "source":
            replacement.source = chosen
        else:
            replacement.target = chosen
        self._session = replacement

    def _open_stream(self, session: _Session) -> Stream:
        if session.stream is not None:
            return session.stream
        if session.source is None or session.target is None:
            missing = "source"
            if session.target is None:
                missing = "target"
            if missing in session.refused:
                reason = f"the client's choice was refused: {session.refused[missing]}"
                raise ConfigError(f"no {missing} language, because {reason}")
            raise ConfigError(
                "no target language: start the client with --tgt-lang, "
                "or set target_language in the configuration"
            )
        engines = self.runtime.loaded(self._resolved)
        if engines is None:
            raise EngineError(
                "the engines of this configuration are not loaded: load_model was not called, "
                "or was last called for other models or heads; call it with this configuration"
            )
        context = self._config.speech.context_of(session.talk)
        session.stream = open_stream(
            self._resolved, engines, session.source, [session.target], context
        )
        return session.stream

    def _traced(self, stream_step: StreamStep) -> tuple[str, ...]:
        """Return the units of a step, and pass the step to the observer."""
        step = stream_step.only()
        if self.runtime.observer is not None:
            self.runtime.observer(step)
        return step.units

    def _report(self, where: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        self.runtime.failures.append(f"{where}: {reason}")
        LOGGER.error("%s failed; the emitted text is kept. %s", where, reason, exc_info=error)

    @classmethod
    def _name_talk(cls, record: logging.LogRecord) -> bool:
        """Read the name of a recording, which Simulstream passes only to its log.

        The log line follows the client's choice of languages, in the same task or thread. If the
        client chose no language, the only processor of the process is meant.
        """
        line = json.loads(record.getMessage())
        metadata = line.get("metadata")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("wav_name"), str):
            return True
        talk = Path(metadata["wav_name"]).stem
        processors = cls.runtime.processors
        agent = _ADDRESSED.get()
        if agent in processors:
            agent._session.talk = talk
        elif len(processors) == 1:
            (only_agent,) = processors
            only_agent._session.talk = talk
        else:
            LOGGER.warning(
                "the names and terms of talk %s are not used, because its client chose no language "
                "and %d processors are running: start the client with --tgt-lang",
                talk,
                len(processors),
            )
        return True


def _undelivered(session: _Session) -> tuple[str, ...]:
    """Return the units that a failed call had already decided to emit."""
    if session.stream is None:
        return ()
    (code,) = session.stream.targets
    return session.stream.drain(code).units


def _joined(tokens: Sequence[str], target: Language | None) -> str:
    is_spaced = target is None or target.spaced
    return "".join(f" {token}" if is_spaced else token for token in tokens)


def _output(units: Sequence[str], target: Language | None) -> IncrementalOutput:
    # Scorers split text at Unicode white space or count characters: tokens differ from units.
    tokens = [part for unit in units for part in unit.split()]
    if target is not None and not target.spaced:
        tokens = list("".join(tokens))
    return IncrementalOutput(tokens, _joined(tokens, target), [], "")
