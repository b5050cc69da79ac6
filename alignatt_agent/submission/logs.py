"""Simulstream's metrics log, read strictly: what is in it, and every line that should not be.

A log is one line with the loading time, then per talk a line with its WAV file, a line for each
chunk and one for the end of the stream::

    {"model_loading_time": 23.4}
    {"id": 0, "metadata": {"wav_name": "/data/talk-a.wav"}}
    {"id": 0, "total_audio_processed": 0.85, "computation_time": 0.1,
     "generated_tokens": ["Sie"], "deleted_tokens": []}
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STEP_KEYS = {
    "id",
    "total_audio_processed",
    "computation_time",
    "generated_tokens",
    "deleted_tokens",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One chunk.

    Attributes:
        line: line number in the log, from 1.
        heard_s: audio processed so far.
        computed_s: computation of this chunk.
        new: emitted tokens.
        deleted: revoked tokens.
    """

    line: int
    heard_s: float
    computed_s: float
    new: tuple[str, ...]
    deleted: tuple[str, ...]


@dataclass(slots=True)
class LoggedTalk:
    """One recording; ``name`` is what scorers match, the stem of the WAV file."""

    name: str
    line: int
    steps: list[Step] = field(default_factory=list)

    @property
    def heard_s(self) -> float:
        """Audio processed in all, seconds."""
        return max((step.heard_s for step in self.steps), default=0.0)

    @property
    def tokens(self) -> list[str]:
        """All tokens that were emitted."""
        return [token for step in self.steps for token in step.new]


@dataclass(slots=True)
class Log:
    """A log.

    Attributes:
        loadings: lines that report the loading of models; one for each run.
        talks: recordings in the order of the log.
        malformed: ``(line, what is wrong)``.
        orphans: lines of a stream that no WAV file was given for.
    """

    loadings: list[int] = field(default_factory=list)
    talks: list[LoggedTalk] = field(default_factory=list)
    malformed: list[tuple[int, str]] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)


def read_log(path: Path) -> Log:
    """Read a log; problems are collected, not raised.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    log = Log()
    by_id: dict[Any, LoggedTalk] = {}
    # Only "\n" ends a line: str.splitlines would also cut at separators inside a token.
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except ValueError as error:
            log.malformed.append((number, f"not JSON ({error})"))
            continue
        if not isinstance(entry, dict):
            log.malformed.append((number, f"{type(entry).__name__}, expected an object"))
        elif "model_loading_time" in entry:
            log.loadings.append(number)
        elif "metadata" in entry:
            name = _wav_stem(entry["metadata"])
            if name is None:
                log.malformed.append((number, "metadata without wav_name"))
            else:
                by_id[entry.get("id")] = talk = LoggedTalk(name, number)
                log.talks.append(talk)
        else:
            _add_step(log, by_id, number, entry)
    return log


def _add_step(log: Log, by_id: dict[Any, LoggedTalk], number: int, entry: dict[str, Any]) -> None:
    missing = _STEP_KEYS - entry.keys()
    if missing:
        log.malformed.append((number, f"lacks {', '.join(sorted(missing))}"))
        return
    heard, computed = entry["total_audio_processed"], entry["computation_time"]
    new, deleted = entry["generated_tokens"], entry["deleted_tokens"]
    if not all(_is_duration(value) for value in (heard, computed)):
        log.malformed.append((number, f"times are {heard!r} and {computed!r}, expected seconds"))
    elif not all(_is_tokens(value) for value in (new, deleted)):
        log.malformed.append((number, "tokens are not lists of strings"))
    elif entry["id"] not in by_id:
        log.orphans.append(number)
    else:
        step = Step(number, float(heard), float(computed), tuple(new), tuple(deleted))
        by_id[entry["id"]].steps.append(step)


def _wav_stem(metadata: Any) -> str | None:
    name = metadata.get("wav_name") if isinstance(metadata, dict) else None
    return Path(name).stem if isinstance(name, str) and name else None


def _is_duration(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
