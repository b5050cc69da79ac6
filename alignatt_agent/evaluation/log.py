"""Logs of a run, ours or another system's: what is in one, and every line that should not be.

Simulstream's log is one line with the loading time, then per recording a line with its WAV file, a
line for each chunk and one for the end of the stream::

    {"model_loading_time": 23.4}
    {"id": 0, "metadata": {"wav_name": "/data/talk-a.wav"}}
    {"id": 0, "total_audio_processed": 0.85, "computation_time": 0.1,
     "generated_tokens": ["Sie"], "deleted_tokens": []}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.types import AlignAttError

Format = Literal["simulstream", "jsonl"]

CLOCK_S = 0.0005
"""Half a millisecond: positions in a log are sums of floating-point chunk lengths."""

SHOWN = 3
"""How many malformed lines a message names."""

_STEP_KEYS = (
    "id",
    "total_audio_processed",
    "computation_time",
    "generated_tokens",
    "deleted_tokens",
)
_JSONL_KEYS = ("source", "prediction")


class LogError(AlignAttError, ValueError):
    """A log cannot be scored; the message lists every problem that was found."""

    @classmethod
    def listing(cls, path: Path, problems: list[str]) -> LogError:
        """Build the error that lists the problems of a log."""
        return cls(f"{path} cannot be scored\n  " + "\n  ".join(problems))


@dataclass(frozen=True, slots=True)
class Step:
    """One chunk of a stream as Simulstream logs it.

    Attributes:
        audio_s: seconds of audio heard so far.
        computation_s: seconds of computation of this chunk.
        tokens: units that were emitted.
        deleted: units that were taken back.
        line: its line in the log, from 1.
    """

    audio_s: float
    computation_s: float
    tokens: tuple[str, ...]
    deleted: tuple[str, ...] = ()
    line: int = 0


@dataclass(slots=True)
class TalkLog:
    """One recording in a log.

    Attributes:
        name: stem of its file, which is what scorers match.
        line: the line that announces it.
        steps: its chunks in order.
    """

    name: str
    line: int = 0
    steps: list[Step] = field(default_factory=list)

    @property
    def heard_s(self) -> float:
        """Seconds of audio that were heard."""
        return max((step.audio_s for step in self.steps), default=0.0)

    @property
    def computed_s(self) -> float:
        """Seconds of computation."""
        return sum(step.computation_s for step in self.steps)

    @property
    def tokens(self) -> list[str]:
        """All units that were emitted."""
        return [token for step in self.steps for token in step.tokens]

    @property
    def emitted(self) -> int:
        """Number of units that were emitted and not taken back."""
        return sum(len(step.tokens) - len(step.deleted) for step in self.steps)

    def returns(self) -> list[tuple[Step, Step]]:
        """Return the pairs of successive chunks whose audio goes back."""
        pairs = pairwise(self.steps)
        return [(a, b) for a, b in pairs if b.audio_s < a.audio_s - CLOCK_S]


@dataclass(slots=True)
class Log:
    """Simulstream's log with all its faults.

    Attributes:
        loadings: lines that report the loading of models; one for each run.
        talks: recordings in the order of the log.
        malformed: ``(line, what is wrong)``.
    """

    loadings: list[int] = field(default_factory=list)
    talks: list[TalkLog] = field(default_factory=list)
    malformed: list[tuple[int, str]] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Return what makes the log unreadable or ambiguous, as lines of a message."""
        found = [f"line {line}: {problem}" for line, problem in self.malformed[:SHOWN]]
        if len(self.malformed) > SHOWN:
            found.append(f"{len(self.malformed)} lines are malformed, the first of them above")
        names = [talk.name for talk in self.talks]
        twice = [talk for k, talk in enumerate(self.talks) if talk.name in names[:k]]
        if twice and len(self.loadings) > 1:
            again = self.loadings[-1]
            found.append(
                f"it holds more than one run (models were loaded again in line {again}): the log "
                f"of a rerun was appended to another; keep the lines up to {again - 1}, or those "
                f"from {again} on"
            )
        else:
            found += [
                f"line {talk.line}: {talk.name} is in the log twice; keep one of the two"
                for talk in twice
            ]
        found += [
            f"line {step.line}: {talk.name} goes back from {before.audio_s:.2f} s to "
            f"{step.audio_s:.2f} s; two streams share this id"
            for talk in self.talks
            for before, step in talk.returns()
        ]
        return found


def log_format(path: Path) -> Format:
    """Tell Simulstream's log from OmniSTEval's JSONL (SimulEval's instances).

    Raises:
        LogError: it is neither.
    """
    for number, line in read_lines(path):
        if isinstance(line, str):
            raise LogError(f"{path}, line {number}: {line}")
        if all(key in line for key in _JSONL_KEYS):
            return "jsonl"
        if "metadata" in line or "model_loading_time" in line or _STEP_KEYS[1] in line:
            return "simulstream"
        raise LogError(
            f"{path}, line {number}: keys {sorted(line)}; expected Simulstream's log (metadata, "
            f"{', '.join(_STEP_KEYS)}) or OmniSTEval's JSONL (source, prediction, delays, elapsed)"
        )
    raise LogError(f"{path} is empty: the run wrote nothing")


def read_log(path: Path) -> list[TalkLog]:
    """Read Simulstream's log, one entry per recording.

    Raises:
        LogError: lines are malformed, or a recording was streamed twice; all of them are listed.
    """
    log = parse_log(path)
    problems = log.problems()
    if problems:
        raise LogError.listing(path, problems)
    return log.talks


def parse_log(path: Path) -> Log:
    """Read Simulstream's log; what is wrong with it is collected.

    Raises:
        LogError: the file cannot be read.
    """
    log = Log()
    opened: dict[str, TalkLog] = {}
    for number, line in read_lines(path):
        if isinstance(line, str):
            log.malformed.append((number, line))
        elif "model_loading_time" in line:
            log.loadings.append(number)
        elif "metadata" in line:
            name = _wav_stem(line["metadata"])
            if name is None:
                log.malformed.append((number, "metadata without wav_name"))
            else:
                opened[str(line.get("id"))] = talk = TalkLog(name, number)
                log.talks.append(talk)
        else:
            step = _step(number, line)
            if isinstance(step, str):
                log.malformed.append((number, step))
            elif str(line["id"]) not in opened:
                problem = f"no line before it names the recording of stream {line['id']}"
                log.malformed.append((number, problem))
            else:
                opened[str(line["id"])].steps.append(step)
    return log


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number of each line that is not empty, and its object or what is wrong with it.

    Raises:
        LogError: the file cannot be read.
    """
    try:
        # As bytes, only a line feed ends a line: str knows separators that tokens may hold.
        with path.open("rb") as stream:
            for number, text in enumerate(stream, 1):
                if not text.strip():
                    continue
                try:
                    line = json.loads(text)
                except ValueError as error:  # of JSON or of UTF-8
                    yield number, f"not JSON ({error})"
                    continue
                whole = isinstance(line, dict)
                yield number, line if whole else f"{type(line).__name__}, expected an object"
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from None


def _step(number: int, line: dict[str, Any]) -> Step | str:
    missing = [key for key in _STEP_KEYS if key not in line]
    if missing:
        return f"lacks {', '.join(missing)}"
    audio, computation, tokens, deleted = (line[key] for key in _STEP_KEYS[1:])
    if not all(_is_duration(value) for value in (audio, computation)):
        return f"times are {audio!r} and {computation!r}, expected seconds"
    if not all(_is_tokens(value) for value in (tokens, deleted)):
        return "tokens are not lists of strings"
    return Step(float(audio), float(computation), tuple(tokens), tuple(deleted), number)


def _wav_stem(metadata: Any) -> str | None:
    name = metadata.get("wav_name") if isinstance(metadata, dict) else None
    return Path(name).stem if isinstance(name, str) and name else None


def _is_duration(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
