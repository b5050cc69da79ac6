"""What happened inside a stream, chunk by chunk: times of the stages, words heard, decisions.

An observer of the agent writes one line per chunk to ``steps.jsonl``, so that transcripts, stage
times and the reasons for stopping can be looked at long after the engines are gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy.typing as npt

from alignatt_agent.cascade import Session
from alignatt_agent.types import SAMPLE_RATE, Draft, Emission, Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignatt_agent.engine.pool import Engines

STAGES = ("asr", "aligner", "draft", "replay", "emission")
"""Where the time of a chunk goes: drafts without the replay of their attention rows, the replay
inside the engine, and what is left for prompts, policy and rounding to units."""

_Report = Callable[[float, Any, Sequence[Any]], None]
"""Receives the seconds of a call, its result and its arguments."""


@dataclass(frozen=True, slots=True)
class Record:
    """One chunk of a stream.

    Attributes:
        talk: stem of the recording.
        audio_s: seconds of audio heard so far.
        seconds: time of each stage.
        closed: sentences that this chunk closed.
        words: the open utterance; its last words are the live tail.
        accessible: how many of ``words`` the translation could rely on.
        reason: why the policy stopped, when it decided anything.
        steps: decoding steps of this chunk.
        accepted: tokens that were emitted in it.
        units: what was emitted.
    """

    talk: str
    audio_s: float
    seconds: dict[str, float]
    closed: tuple[tuple[Word, ...], ...]
    words: tuple[Word, ...]
    accessible: int
    reason: str | None
    steps: int
    accepted: int
    units: tuple[str, ...]


class Recorder:
    """Observes the sessions of an agent (``agent.SessionObserver``).

    Args:
        path: file to write, one line per chunk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._spent: dict[str, float] = {}
        self.talk = ""

    def __enter__(self) -> Recorder:
        self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def engines(self, engines: Engines) -> Engines:
        """Return the same engines with a clock on each."""
        names = ("asr", "aligner", "translation", "tokenizer", "num_layers", "num_heads")
        parts = {name: getattr(engines, name) for name in names}
        parts["asr"] = _Timed(engines.asr, "transcribe", self._clock("asr"))
        parts["aligner"] = _Timed(engines.aligner, "align", self._clock("aligner"))
        parts["translation"] = _Timed(engines.translation, "draft", self._drafted)
        return cast("Engines", SimpleNamespace(**parts))

    def session(self, session: Session) -> Session:
        """Return the session with every chunk written down."""
        return cast(Session, _RecordedSession(session, self))

    def _spend(self, stage: str, seconds: float) -> None:
        self._spent[stage] = self._spent.get(stage, 0.0) + seconds

    def _clock(self, stage: str) -> _Report:
        return lambda seconds, result, arguments: self._spend(stage, seconds)

    def _drafted(self, seconds: float, draft: Draft, arguments: Sequence[Any]) -> None:
        resumed = next((item for item in arguments if isinstance(item, Draft)), None)
        replay = draft.replay_s - (resumed.replay_s if resumed else 0.0)
        self._spend("replay", replay)
        self._spend("draft", seconds - replay)

    def begin(self) -> None:
        """Start the clocks of a chunk."""
        self._spent = {}

    def write(self, session: Session, audio_s: float, total: float, done: _Done) -> None:
        """Write one chunk."""
        assert self._file is not None
        heard = session.heard
        parts = {stage: self._spent.get(stage, 0.0) for stage in STAGES[:-1]}
        parts["emission"] = total - sum(parts.values())
        line = {
            "talk": self.talk,
            "audio_s": round(audio_s, 4),
            "seconds": {stage: round(value, 5) for stage, value in parts.items()},
            "closed": [_plain(sentence) for sentence in heard.sentences] if heard else [],
            "words": _plain(heard.live.words) if heard else [],
            "accessible": heard.live.accessible if heard else 0,
            "reason": done.reason,
            "steps": done.steps,
            "accepted": done.accepted,
            "units": list(done.units),
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class _Done:
    """What a chunk did on the translation side."""

    reason: str | None
    steps: int
    accepted: int
    units: tuple[str, ...]


class _Timed:
    """An engine with a clock on one method."""

    def __init__(self, inner: Any, method: str, report: _Report) -> None:
        self._inner, self._method, self._report = inner, method, report

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name != self._method:
            return value

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = value(*args, **kwargs)
            self._report(time.perf_counter() - begin, result, (*args, *kwargs.values()))
            return result

        return timed


class _RecordedSession:
    """A session whose chunks are written down; everything else is the session's own."""

    def __init__(self, inner: Session, recorder: Recorder) -> None:
        self._inner, self._recorder = inner, recorder
        self._samples = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def step(self, chunk: npt.NDArray[Any]) -> Emission:
        self._samples += len(chunk)
        return self._recorded(lambda: self._inner.step(chunk))

    def finish(self) -> Emission:
        return self._recorded(self._inner.finish)

    def _recorded(self, call: Callable[[], Emission]) -> Emission:
        translator = self._inner.translator
        decision, steps, emitted = translator.decision, translator.steps, translator.emitted
        self._recorder.begin()
        begin = time.perf_counter()
        emission = call()
        total = time.perf_counter() - begin
        latest = translator.decision
        reason = latest.reason.value if latest is not None and latest is not decision else None
        done = _Done(reason, translator.steps - steps, translator.emitted - emitted, emission.units)
        self._recorder.write(self._inner, self._samples / SAMPLE_RATE, total, done)
        return emission


def read_records(path: Path) -> Iterator[Record]:
    """Read ``steps.jsonl``, one record at a time."""
    with path.open(encoding="utf-8") as stream:
        for text in stream:
            line = json.loads(text)
            yield Record(
                talk=line["talk"],
                audio_s=line["audio_s"],
                seconds=line["seconds"],
                closed=tuple(_words(sentence) for sentence in line["closed"]),
                words=_words(line["words"]),
                accessible=line["accessible"],
                reason=line["reason"],
                steps=line["steps"],
                accepted=line["accepted"],
                units=tuple(line["units"]),
            )


def _plain(words: tuple[Word, ...]) -> list[list[Any]]:
    return [[word.text, round(word.start, 3), round(word.end, 3)] for word in words]


def _words(items: list[list[Any]]) -> tuple[Word, ...]:
    return tuple(Word(*item) for item in items)
