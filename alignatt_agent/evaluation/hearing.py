"""What was heard once and is recalled for the next target of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from alignatt_agent.cascade import Engines
from alignatt_agent.evaluation.cache import Memo, key_of
from alignatt_agent.types import AlignedItem, Aligner, FloatArray, Recognizer, Transcript

T = TypeVar("T")

# A pickle names its class, but not the fields: results of an older form must not be recalled.
_FORM = repr([(kind, kind.__slots__) for kind in (AlignedItem, Transcript)])


class SharedHearing:
    """The speech engines behind a memory: several targets hear the same recordings once.

    What is recalled counts with the seconds that it took, so every target has the computation
    times of a run of its own.

    Args:
        clock: a clock in seconds.
        sleep: lets seconds of that clock pass.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now, self._sleep = clock, sleep
        self._known: dict[bytes, tuple[Any, float]] = {}
        self._recalled = self._taken = 0.0

    def recall(self, key: bytes, compute: Callable[[], T], beside: bool = False) -> T:
        """Return what is stored under ``key``; compute, time and store it when nothing is.

        ``beside``: other work may go on meanwhile, so the time of a result passes again.
        """
        if key in self._known:
            value, seconds = self._known[key]
            if beside:
                self._sleep(seconds)
            else:
                self._recalled += seconds
        else:
            begin = self._now()
            value = compute()
            self._known[key] = value, self._now() - begin
        found: T = value
        return found

    def clock(self) -> float:
        """Return the time as if nothing had been recalled, in seconds."""
        return self._now() + self._recalled

    def take_seconds(self) -> float:
        """Return the seconds of what was recalled since the last call."""
        taken, self._taken = self._taken, self._recalled
        return self._recalled - taken

    def between(self, engines: Engines) -> Engines:
        """Return ``engines`` with the memory in front of recogniser and aligner."""
        return replace(
            engines,
            asr=RememberedRecognizer(engines.asr, self),
            aligner=RememberedAligner(engines.aligner, self),
        )


Memory = SharedHearing | Memo


class RememberedRecognizer:
    """A recogniser that transcribes the same audio once.

    Args:
        engine: transcribes.
        memory: where results go.
        name: what identifies the checkpoint and how it runs, where others share the memory.
    """

    def __init__(self, engine: Recognizer, memory: Memory, name: str = "") -> None:
        self._engine, self._memory, self._name = engine, memory, name

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``, whatever was expected of it."""
        key = key_of("transcribe", _FORM, self._name, audio.tobytes(), language, context)
        return self._memory.recall(
            key, lambda: self._engine.transcribe(audio, language, context, expected)
        )


class RememberedAligner:
    """An aligner that aligns the same audio and text once.

    Args:
        engine: aligns.
        memory: where results go.
        name: see ``RememberedRecognizer``.
    """

    def __init__(self, engine: Aligner, memory: Memory, name: str = "") -> None:
        self._engine, self._memory, self._name = engine, memory, name

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the timed words of ``text``."""
        key = key_of("align", _FORM, self._name, audio.tobytes(), text, language)
        return self._memory.recall(
            key, lambda: self._engine.align(audio, text, language), beside=True
        )
