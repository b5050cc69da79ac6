"""Translate the chunks of one source, write the outputs, and report errors."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from alignatt_agent.audio.recording import AudioError
from alignatt_agent.cascade.stream import Stream, StreamStep
from alignatt_agent.live.cues import Said
from alignatt_agent.live.outputs import Output
from alignatt_agent.types import EngineError, FloatArray, Step

ATTEMPTS = 3
"""Number of successive failures after which the stream ends."""

LONG_S = 30.0
"""Seconds of audio without words after which a warning is printed."""


@dataclass
class LiveTranslation:
    """A stream, its outputs by language code, and the exit status so far.

    ``clock`` returns the emission times; without it, each time is the duration of audio so far.
    """

    stream: Stream
    outputs: Mapping[str, Output]
    clock: Callable[[], float] | None
    status: int = 0
    _audio_s: float = 0.0
    _has_text: bool = False
    _reported: set[str] = field(default_factory=set)

    def follow(self, chunks: Iterable[FloatArray]) -> None:
        """Translate all chunks and report errors."""
        self._begin = 0.0
        if self.clock is not None:
            self._begin = self.clock()
        try:
            if not self._translate(chunks):
                return
        except AudioError as error:
            # The audio before the error is still translated.
            self._fail(str(error))
        for _ in range(ATTEMPTS):
            if self._call(self.stream.finish):
                break
        # A failure has already been reported, and it explains the missing words.
        if self._audio_s >= LONG_S and not (self._has_text or self.status):
            text = "check the input, --source and --raw"
            print(f"warning: no words in {self._audio_s:.0f} s of audio; {text}", file=sys.stderr)

    def close(self) -> None:
        """Write the remaining output."""
        for code, output in self.outputs.items():
            summary = self._write(code, output.close)
            if summary:
                print(summary, file=sys.stderr)

    def _translate(self, chunks: Iterable[FloatArray]) -> bool:
        """Translate all chunks; return false after too many failures in a row."""
        failures = 0
        is_empty = True
        for chunk in chunks:
            is_empty = False
            if self._call(partial(self.stream.step, chunk)):
                failures = 0
                continue
            failures += 1
            if failures == ATTEMPTS:
                self._fail(f"stopped after {ATTEMPTS} errors in a row")
                return False
        if is_empty:
            self._fail("the input contains no audio")
        return True

    def _call(self, call: Callable[[], StreamStep]) -> bool:
        """Run one step; return whether every language succeeded."""
        try:
            step = call()
        except EngineError as error:
            self._fail(str(error))
            return False
        for code, failure in step.failures.items():
            self._fail(f"{code}: {failure}")
        self._audio_s = step.audio_s
        emission_time = step.audio_s
        if self.clock is not None:
            emission_time = self.clock() - self._begin
        for code, target_step in step.steps.items():
            self._say(code, target_step, emission_time)
        return not step.failures

    def _say(self, code: str, step: Step, emission_time: float) -> None:
        """Add the units of a step to the output of its language."""
        units = []
        for text, spoken in zip(step.units, step.times, strict=True):
            unit = Said(text, spoken, emission_time)
            units.append(unit)
        if units:
            self._has_text = True
        # An output without new units is due for writing, too.
        self._write(code, partial(self.outputs[code].say, units))

    def _write(self, code: str, call: Callable[[], str | None]) -> str | None:
        """Write to one output; if writing fails, report the error and continue."""
        try:
            return call()
        except BrokenPipeError:
            # The reader of the terminal's output has exited, which ends the command.
            raise
        except OSError as error:
            self._fail(f"{code}: the output cannot be written: {error.strerror}")
            return None

    def _fail(self, message: str) -> None:
        """Report an error unless it has been reported before."""
        self.status = EngineError.exit_status
        if message not in self._reported:
            self._reported.add(message)
            print(f"alignatt translate: {message}", file=sys.stderr)
