"""Logs of a run, ours or another system's, and everything that can be wrong with one.

The official scorer joins what it finds, so a rerun appended to a log, a talk that is missing or a
stream that was cut would be scored as if the system had been bad. Here they are named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.evaluation.devset import DevSet, Talk

Format = Literal["simulstream", "jsonl"]

_STEP_KEYS = ("total_audio_processed", "computation_time", "generated_tokens", "deleted_tokens")
_JSONL_KEYS = ("source", "prediction")


class LogError(ValueError):
    """A log cannot be scored; the message lists every problem that was found."""


@dataclass(frozen=True, slots=True)
class Step:
    """One chunk of a stream as Simulstream logs it.

    Attributes:
        audio_s: seconds of audio heard so far.
        computation_s: seconds of computation of this chunk.
        tokens: units that were emitted.
        deleted: units that were taken back.
    """

    audio_s: float
    computation_s: float
    tokens: tuple[str, ...]
    deleted: tuple[str, ...] = ()


@dataclass(slots=True)
class TalkLog:
    """One recording in a log.

    Attributes:
        name: stem of its file.
        steps: its chunks in order.
    """

    name: str
    steps: list[Step] = field(default_factory=list)

    @property
    def heard_s(self) -> float:
        """Seconds of audio that were heard."""
        return self.steps[-1].audio_s if self.steps else 0.0

    @property
    def computed_s(self) -> float:
        """Seconds of computation."""
        return sum(step.computation_s for step in self.steps)

    @property
    def emitted(self) -> int:
        """Units that were emitted and not taken back."""
        return sum(len(step.tokens) - len(step.deleted) for step in self.steps)


def log_format(path: Path) -> Format:
    """Tell Simulstream's log from OmniSTEval's JSONL (SimulEval's instances).

    Raises:
        LogError: it is neither.
    """
    for number, line in _lines(path):
        if all(key in line for key in _JSONL_KEYS):
            return "jsonl"
        if "metadata" in line or "model_loading_time" in line or _STEP_KEYS[0] in line:
            return "simulstream"
        raise LogError(
            f"{path}, line {number}: keys {sorted(line)}; expected Simulstream's log (id, "
            f"metadata, {', '.join(_STEP_KEYS)}) or OmniSTEval's JSONL (source, prediction, "
            f"delays, elapsed)"
        )
    raise LogError(f"{path} is empty: the run wrote nothing")


def read_log(path: Path) -> list[TalkLog]:
    """Read Simulstream's log, one entry per recording.

    Raises:
        LogError: a line is malformed, or a recording was streamed twice.
    """
    talks: dict[str, TalkLog] = {}
    opened: dict[Any, TalkLog] = {}
    loads: list[int] = []
    for number, line in _lines(path):
        if "model_loading_time" in line:
            loads.append(number)
        elif "metadata" in line:
            name = Path(str(line["metadata"].get("wav_name", ""))).stem
            if name in talks:
                raise LogError(_twice(path, name, number, loads))
            talks[name] = opened[line.get("id")] = TalkLog(name)
        elif "id" in line:
            talk = opened.get(line["id"])
            if talk is None:
                raise LogError(
                    f"{path}, line {number}: no recording was announced for id {line['id']}"
                )
            talk.steps.append(_step(path, number, line, talk))
        else:
            raise LogError(f"{path}, line {number}: unknown keys {sorted(line)}")
    return list(talks.values())


def check_log(path: Path, devset: DevSet, latency_unit: str) -> list[str]:
    """Refuse a log that would be scored wrongly; works for both formats.

    Args:
        path: Simulstream's log or OmniSTEval's JSONL.
        devset: what was streamed.
        latency_unit: ``word`` or ``char``.

    Returns:
        Warnings: what is scored correctly but is hardly meant.

    Raises:
        LogError: all problems.
    """
    if log_format(path) == "jsonl":
        return _check_jsonl(path, devset, latency_unit)
    logs = read_log(path)
    problems = _names(path, [log.name for log in logs], devset)
    known = {talk.name: talk for talk in devset.talks}
    for log in logs:
        if log.name in known:
            problems += _check_heard(log, known[log.name])
        problems += _check_units(log, latency_unit)
    if not problems and not any(log.emitted for log in logs):
        heard = sum(log.heard_s for log in logs)
        problems.append(f"nothing was emitted for {heard:.0f} s of audio")
    if problems:
        raise LogError(f"{path} cannot be scored\n  " + "\n  ".join(problems))
    return [f"{log.name}: nothing was emitted" for log in logs if not log.emitted]


def _check_jsonl(path: Path, devset: DevSet, latency_unit: str) -> list[str]:
    problems: list[str] = []
    warnings: list[str] = []
    names: list[str] = []
    for number, line in _lines(path):
        source = line.get("source")
        source = source[0] if isinstance(source, list) and source else source
        if not isinstance(source, str) or not isinstance(line.get("prediction"), str):
            problems.append(f"line {number}: expected the keys source and prediction")
            continue
        name = Path(source).stem
        if name in names:
            problems.append(f"line {number}: a second entry for {name}")
        names.append(name)
        text = line["prediction"]
        units = list(text) if latency_unit == "char" else text.split()
        if not units:
            warnings.append(f"{name}: nothing was emitted")
        if "delays" not in line:
            problems.append(f"line {number}: no delays, so that latency cannot be measured")
        problems += [
            f"line {number}: {len(line[key])} {key} for {len(units)} units ({latency_unit}s of "
            f"the prediction)"
            for key in ("delays", "elapsed")
            if key in line and len(line[key]) != len(units)
        ]
    problems += _names(path, list(dict.fromkeys(names)), devset)
    if len(warnings) == len(names):
        problems.append("nothing was emitted at all")
    if problems:
        raise LogError(f"{path} cannot be scored\n  " + "\n  ".join(problems))
    return warnings


def _names(path: Path, names: list[str], devset: DevSet) -> list[str]:
    expected = [talk.name for talk in devset.talks]
    missing = [name for name in expected if name not in names]
    unknown = [name for name in names if name not in expected]
    problems = []
    if missing:
        problems.append(
            f"talks missing from the log: {', '.join(missing)} "
            f"({len(names)} of {len(expected)} are there)"
        )
    if unknown:
        problems.append(f"talks that the segmentation does not have: {', '.join(unknown)}")
    return problems


def _check_heard(log: TalkLog, talk: Talk) -> list[str]:
    if log.heard_s >= talk.last_offset:
        return []
    return [
        f"{log.name}: heard up to {log.heard_s:.1f} s, but its last segment starts at "
        f"{talk.last_offset:.1f} s; the run was interrupted"
    ]


def _check_units(log: TalkLog, latency_unit: str) -> list[str]:
    """White space inside units makes the scorers count them differently and stop."""
    bad = {
        token
        for step in log.steps
        for token in step.tokens
        if any(char.isspace() and char != " " for char in token)
    }
    if not bad or latency_unit == "char":
        return []
    shown = ", ".join(repr(token) for token in sorted(bad)[:3])
    return [
        f"{log.name}: {len(bad)} units hold white space that is not U+0020 ({shown}), which "
        f"scorers count differently; the agent has to split or strip them"
    ]


def _twice(path: Path, name: str, number: int, loads: list[int]) -> str:
    if len(loads) > 1:
        return (
            f"{path} holds more than one run (models were loaded again in line {loads[-1]}): the "
            f"log of a rerun was appended to another; keep the lines up to {loads[-1] - 1}, or "
            f"those from {loads[-1]} on"
        )
    return f"{path}, line {number}: {name} is in the log twice; keep one of the two"


def _step(path: Path, number: int, line: dict[str, Any], talk: TalkLog) -> Step:
    try:
        audio, computation, tokens, deleted = (line[key] for key in _STEP_KEYS)
        step = Step(float(audio), float(computation), tuple(tokens), tuple(deleted))
    except (KeyError, TypeError, ValueError) as error:
        raise LogError(f"{path}, line {number}: malformed ({error!r}): {line}") from None
    if step.audio_s < talk.heard_s:
        raise LogError(
            f"{path}, line {number}: {talk.name} goes back from {talk.heard_s:.2f} s to "
            f"{step.audio_s:.2f} s; two streams share this id"
        )
    return step


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as stream:
            for number, text in enumerate(stream, 1):
                if not text.strip():
                    continue
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise LogError(f"{path}, line {number}: expected an object, got {text[:60]!r}")
                yield number, line
    except FileNotFoundError:
        raise LogError(f"{path} does not exist") from None
    except json.JSONDecodeError as error:
        raise LogError(f"{path}, line {number}: not JSON ({error}); the run was cut") from None
