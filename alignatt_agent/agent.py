"""``AlignAttAgent``: the speech processor for Simulstream."""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

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


class AlignAttAgent(SpeechProcessor):  # type: ignore[misc]  # simulstream is untyped
    """Translate speech into append-only text.

    All processors in a process share its engines; each instance holds one stream. An instance may
    be called from any thread: Simulstream's servers switch threads, and the HTTP server clears an
    expired session while a chunk is still being processed.
    """

    runtime: ClassVar[Runtime] = Runtime()
    """Shared by all processors in this process. For each client, Simulstream instantiates the agent
    by its class name and passes only the configuration."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._resolved = self.runtime.resolve(AgentConfig.from_namespace(config))
        self._config = self._resolved.config
        self._lock = threading.RLock()
        self._stream: Stream | None = None
        self._source: Language | None = None
        self._target: Language | None = None
        self.talk = ""  # stem of the recording's file name, if Simulstream logs it
        self._set_default_languages()
        if isinstance(self._config.speech.context, dict):
            METRICS_LOGGER.addFilter(self._name_talk)  # adding it twice has no effect
            self.runtime.addressed = self

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
        self._source = self._choose(language, spoken=True)

    def set_target_language(self, language: str) -> None:
        """Choose the language of the translation by code or name."""
        self._target = self._choose(language)

    def process_chunk(self, waveform: np.ndarray[Any, Any]) -> IncrementalOutput:
        """Process the next piece of audio.

        Args:
            waveform: mono float samples at 16 kHz, ``[samples]``; may be read-only.

        Raises:
            Exception: an engine failed or a setting is wrong. Simulstream ends the stream; emitted
                units are kept.
        """
        with self._lock:
            try:
                units = self._traced(self._open_stream().step(waveform))
            except Exception as error:
                self._report("process_chunk", error)
                # A short piece comes from MessageProcessor.end_of_stream, where an exception would
                # leave a WebSocket client waiting forever.
                if np.size(waveform) >= round(self.speech_chunk_size * SAMPLE_RATE):
                    raise
                units = self._undelivered()
            return self._output(units)

    def end_of_stream(self) -> IncrementalOutput:
        """Finish the open utterance; errors are logged, never raised (see ``process_chunk``)."""
        with self._lock:
            units: tuple[str, ...] = ()
            for _ in range(FINISH_ATTEMPTS if self._stream is not None else 0):
                assert self._stream is not None
                try:
                    units += self._traced(self._stream.finish())
                    break
                except Exception as error:
                    self._report("end_of_stream", error)
                    units += self._undelivered()
            return self._output(units)

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Join units into text to append, with a space before each unit of a spaced language."""
        spaced = self._target.spaced if isinstance(self._target, Language) else True
        return "".join(f" {token}" if spaced else token for token in tokens)

    def clear(self) -> None:
        """Discard the stream and restore the configured languages; callable at any time."""
        with self._lock:
            self._stream = None
            self.talk = ""
            self._set_default_languages()

    def _set_default_languages(self) -> None:
        target = self._config.target_language
        self._source = language(self._config.source_language)
        self._target = language(target) if target else None

    def _choose(self, name: str, spoken: bool = False) -> Language | None:
        with self._lock:
            self._stream = None
            self.runtime.addressed = self
            try:
                given = self._config.models.aligner is not None, self._config.speech.recognizer
                return language(name).check_spoken(*given) if spoken else language(name)
            except LanguageError:
                # The WebSocket server only logs this error. Without languages, the first chunk
                # fails instead of emitting the wrong language.
                self._source = self._target = None
                raise

    def _open_stream(self) -> Stream:
        if self._stream is not None:
            return self._stream
        if self._source is None or self._target is None:
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
        context = self._config.speech.context_of(self.talk)
        self._stream = open_stream(self._resolved, engines, self._source, [self._target], context)
        return self._stream

    def _traced(self, found: StreamStep) -> tuple[str, ...]:
        step = found.only()
        if self.runtime.observer is not None:
            self.runtime.observer(step)
        return step.units

    def _undelivered(self) -> tuple[str, ...]:
        """Return the units that a failed call had already decided to emit."""
        if self._stream is None:
            return ()
        (code,) = self._stream.targets
        return self._stream.drain(code).units

    def _output(self, units: Sequence[str]) -> IncrementalOutput:
        # Scorers split text at Unicode white space or count characters: tokens differ from units.
        tokens = [part for unit in units for part in unit.split()]
        if isinstance(self._target, Language) and not self._target.spaced:
            tokens = list("".join(tokens))
        return IncrementalOutput(tokens, self.tokens_to_string(tokens), [], "")

    def _report(self, where: str, error: Exception) -> None:
        message = f"{where}: {type(error).__name__}: {error}"
        self.runtime.failures.append(message)
        LOGGER.error(
            "%s failed; the emitted text is kept. %s", *message.split(": ", 1), exc_info=error
        )

    @classmethod
    def _name_talk(cls, record: logging.LogRecord) -> bool:
        """Read the name of a recording, which Simulstream passes only to its log.

        The log line directly follows the client's choice of languages, in the same thread. If no
        client chooses languages, there is only one processor.
        """
        line = json.loads(record.getMessage())
        if "metadata" in line and cls.runtime.addressed is not None:
            cls.runtime.addressed.talk = Path(str(line["metadata"].get("wav_name", ""))).stem
        return True
