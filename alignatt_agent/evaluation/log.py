"""Logs of a run, ours or another system's: what is in one, and every line that should not be.

Simulstream's log is one line with the loading time, then per recording a line with its WAV file, a
line for each chunk and one for the end of the stream::

    {"model_loading_time": 23.4}
    {"id": 0, "metadata": {"wav_name": "/data/talk-a.wav"}}
    {"id": 0, "total_audio_processed": 0.85, "computation_time": 0.1,
     "generated_tokens": ["Sie"], "deleted_tokens": []}

OmniSTEval's JSONL (SimulEval's instances) is one line per recording::

    {"source": "talk-a.wav", "prediction": "Sie ...", "delays": [850.0, ...], "elapsed": [...]}
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

_STEP_KEYS = (
    "id",
    "total_audio_processed",
    "computation_time",
    "generated_tokens",
    "deleted_tokens",
)
_JSONL_KEYS = ("source", "prediction")


class LogError(AlignAttError, ValueError):
    """A log cannot be read or scored; the message lists every problem that was found."""


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
        steps: its chunks in order; none in a JSONL log.
        instance: its line in a JSONL log.
    """

    name: str
    line: int = 0
    steps: list[Step] = field(default_factory=list)
    instance: dict[str, Any] | None = None

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
    def silent(self) -> bool:
        """Whether nothing was emitted, or everything was taken back."""
        if self.instance is not None:
            return not self.instance["prediction"].strip()
        kept = sum(len(step.tokens) - len(step.deleted) for step in self.steps)
        return not kept or not any(token.strip() for token in self.tokens)

    def returns(self) -> list[tuple[Step, Step]]:
        """Return the pairs of successive chunks whose audio goes back."""
        pairs = pairwise(self.steps)
        return [(a, b) for a, b in pairs if b.audio_s < a.audio_s - CLOCK_S]


@dataclass(slots=True)
class Log:
    """A log with all its faults; ``check_log`` names them.

    Attributes:
        path: where it was read.
        format: Simulstream's, or OmniSTEval's JSONL.
        loadings: lines that report the loading of models; one for each run.
        talks: recordings in the order of the log.
        malformed: ``(line, what is wrong)``.
    """

    path: Path
    format: Format = "simulstream"
    loadings: list[int] = field(default_factory=list)
    talks: list[TalkLog] = field(default_factory=list)
    malformed: list[tuple[int, str]] = field(default_factory=list)


def parse_log(path: Path) -> Log:
    """Read a log of either format; what is wrong with it is collected.

    Raises:
        LogError: the file cannot be read.
    """
    log = Log(path)
    opened: dict[str, TalkLog] = {}
    for number, line in _read_lines(path):
        problem = line if isinstance(line, str) else _read_line(log, opened, number, line)
        if problem:
            log.malformed.append((number, problem))
    return log


def _read_line(
    log: Log, opened: dict[str, TalkLog], number: int, line: dict[str, Any]
) -> str | None:
    """Add a line to the log; returns what is wrong with it."""
    if all(key in line for key in _JSONL_KEYS) and not (log.talks or log.loadings):
        log.format = "jsonl"
    if log.format == "jsonl":
        return _read_instance(log, number, line)
    if "model_loading_time" in line:
        log.loadings.append(number)
        return None
    if "metadata" in line:
        name = _wav_stem(line["metadata"])
        if name is None:
            return "metadata without wav_name"
        opened[str(line.get("id"))] = talk = TalkLog(name, number)
        log.talks.append(talk)
        return None
    if not any(key in line for key in _STEP_KEYS):
        return (
            f"keys {sorted(line)}; expected Simulstream's log (metadata, {', '.join(_STEP_KEYS)}) "
            f"or OmniSTEval's JSONL ({', '.join(_JSONL_KEYS)}, delays, elapsed)"
        )
    step = _step(number, line)
    if isinstance(step, str):
        return step
    if str(line["id"]) not in opened:
        return f"no line before it names the recording of stream {line['id']}"
    opened[str(line["id"])].steps.append(step)
    return None


def _read_instance(log: Log, number: int, line: dict[str, Any]) -> str | None:
    source = line.get("source")
    source = source[0] if isinstance(source, list) and source else source
    if not isinstance(source, str) or not isinstance(line.get("prediction"), str):
        return "expected the keys source and prediction"
    log.talks.append(TalkLog(Path(source).stem, number, instance=line))
    return None


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number of each line that is not empty, and its object or what is wrong with it."""
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
