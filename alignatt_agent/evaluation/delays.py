"""Check the delays in logs: faults that make a latency wrong, and notes on doubtful delays.

OmniSTEval's JSONL contains one delay per unit, in milliseconds of audio (``delays``) and, if
computation times are known, in milliseconds of time (``elapsed``). OmniSTEval accepts any numbers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from alignatt_agent.evaluation.log import CLOCK_S, Log, TalkLog
from alignatt_agent.evaluation.segments import is_time
from alignatt_agent.evaluation.text_notes import text_notes

FASTEST = 30.0
"""Units per second of audio that no talk exceeds; the fastest scripts have 20 characters."""

LATE_S = 1.0
"""Audio after the last segment that is usual, e.g. silence, in seconds."""

_KEYS = ("delays", "elapsed")

_CLOCK_MS = 1000 * CLOCK_S

_MARKERS = re.compile(
    r"</?s>|<(?:eos|bos|pad|unk|mask|start_of_turn|end_of_turn)>"
    r"|<\|[^|<>\s]+\|?>|<[^|<>\s]+\|>"
    r"|\[(?:PAD|SEP|CLS|UNK|MASK|EOS|BOS)\]"
)
"""Control tokens of common tokenizers, e.g. the ``</s>`` that SimulEval's agents emit."""


def incomplete_keys(log: Log) -> Iterator[tuple[str, str]]:
    """Yield each key of times that only some talks of OmniSTEval's JSONL have, and the fix."""
    for key in _KEYS:
        talks_with_key = 0
        lacking: list[str] = []
        for talk in log.talks:
            if talk.instance is None:
                continue
            if key in talk.instance:
                talks_with_key += 1
            else:
                lacking.append(talk.name)
        if talks_with_key and lacking:
            talks = talks_with_key + len(lacking)
            yield (
                f"{len(lacking)} of {talks} talks have no {key}: {', '.join(lacking)}",
                f"write {key} for all talks, or remove the key to score the log without it",
            )


def delay_faults(
    talk: TalkLog, last_start_s: float | None, unit: str = "word"
) -> Iterator[tuple[str, str]]:
    """Yield each fault of a talk's delays in OmniSTEval's JSONL, and its fix.

    ``last_start_s`` is the start of the talk's last segment. ``unit`` is ``"word"`` or ``"char"``.
    """
    assert talk.instance is not None
    prediction = str(talk.instance["prediction"])
    unit_count = len(prediction.split())
    if unit == "char":
        # OmniSTEval also counts the spaces.
        unit_count = len(prediction)
    readable = True
    for key in _KEYS:
        if key not in talk.instance:
            continue
        values = talk.instance[key]
        problem = _not_milliseconds(values)
        if problem is None and len(values) != unit_count:
            problem = f"{len(values)} values for {unit_count} {unit}s of the prediction"
        if problem is not None:
            readable = False
            fix = f"write one number of milliseconds per {unit} of the prediction"
            yield f"{talk.name}: {key}: {problem}", fix
    delays = talk.instance.get("delays")
    elapsed = talk.instance.get("elapsed")
    if not readable or not delays:
        return
    backward: list[int] = []
    for place, (before, after) in enumerate(pairwise(delays), 2):
        if after < before - _CLOCK_MS:
            backward.append(place)
    if backward:
        place = backward[0]
        before, after = delays[place - 2 : place]
        yield (
            f"{talk.name}: {len(backward)} of {len(delays)} delays are smaller than the delay "
            f"before; the first is delay {place}, {after:g} after {before:g}",
            "a delay is the audio heard so far, from the start of the recording: probably the "
            "delays are relative to segments, or the log contains two runs",
        )
    largest_s = max(delays) / 1000
    if len(delays) > 1 and largest_s == 0:
        yield (
            f"{talk.name}: all {len(delays)} delays are 0 ms",
            "remove delays and elapsed from the log of a system that is not timed; its quality is "
            "scored without them",
        )
    elif len(delays) > 1 + FASTEST * largest_s:
        yield (
            f"{talk.name}: {len(delays)} units have delays of at most {max(delays):g} ms",
            "delays are milliseconds: probably these are seconds or numbers of chunks; convert "
            "them",
        )
    elif elapsed:  # with delays in another unit, a comparison would only repeat the fault
        early: list[int] = []
        pairs = list(zip(delays, elapsed, strict=False))
        for place, (delay, time) in enumerate(pairs, 1):
            if time < delay - _CLOCK_MS:
                early.append(place)
        if early:
            delay, time = pairs[early[0] - 1]
            yield (
                f"{talk.name}: {len(early)} of {len(pairs)} elapsed times are smaller than their "
                f"delays; the first is number {early[0]}, {time:g} with delay {delay:g}",
                "elapsed is the delay plus the computation time, in milliseconds: probably these "
                "are seconds or computation times alone; add the delays",
            )
    length = talk.instance.get("source_length")
    if not isinstance(length, int | float) or last_start_s is None:
        return
    if length / 1000 < last_start_s - CLOCK_S:
        yield (
            f"{talk.name}: source_length is {length:g} ms, but the last segment starts at "
            f"{last_start_s:.1f} s",
            "the run was interrupted: stream the whole recording again; or source_length is not in "
            "milliseconds",
        )


def log_notes(log: Log, segments: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return notes on doubtful units and delays of a log that can be scored.

    ``segments`` maps each talk to the start and the end of its last segment, in seconds.
    """
    markers: list[str] = []
    units: list[str] = []
    for talk in log.talks:
        markers += _MARKERS.findall(_text(talk))
        units += _units(talk)
    notes: list[str] = []
    if markers:
        kinds = ", ".join(dict.fromkeys(markers))
        notes.append(
            f"the output contains {len(markers)} control token(s), scored as text: {kinds}"
        )
    notes += [f"output: {note}" for note in text_notes(units, "unit")]
    for talk in log.talks:
        if talk.instance is None or talk.name not in segments:
            continue
        delays = talk.instance.get("delays")
        if not delays:
            continue
        start_s, end_s = segments[talk.name]
        largest_s = max(delays) / 1000
        late = [delay for delay in delays if delay / 1000 > end_s + LATE_S]
        if late:
            notes.append(
                f"{talk.name}: {len(late)} of {len(delays)} delays are more than {LATE_S:g} s "
                f"after the end of the last segment ({end_s:.1f} s), the largest by "
                f"{largest_s - end_s:.1f} s; LongYAAL ignores units after this end"
            )
        if largest_s < start_s - CLOCK_S:
            notes.append(
                f"{talk.name}: the last unit was emitted at {largest_s:.1f} s, before the "
                f"last segment starts ({start_s:.1f} s): was the run interrupted?"
            )
    notes += _timing_notes(log)
    return notes


def _timing_notes(log: Log) -> Iterator[str]:
    """Yield a note on talks that were not timed, whose LongYAAL CA equals CU."""
    timed = 0
    untimed: list[str] = []
    for talk in log.talks:
        times = _computation_times(talk)
        # Systems that are not timed write zeros, or elapsed times that equal the delays.
        if times == {0}:
            untimed.append(talk.name)
        elif times:
            timed += 1
    if untimed and not timed:
        yield (
            "all computation times are 0 ms, so LongYAAL CA equals CU: probably the log contains "
            "no computation times"
        )
    elif untimed:
        yield (
            f"all computation times of {', '.join(untimed)} are 0 ms, so LongYAAL CA is too low: "
            "probably these talks were not timed"
        )


def _not_milliseconds(values: Any) -> str | None:
    """Describe the first value that is not a time, or return ``None``."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        return f"expected a list of numbers, got {values!r}"
    invalid = [place for place, value in enumerate(values, 1) if not is_time(value)]
    if not invalid:
        return None
    first = values[invalid[0] - 1]
    return (
        f"{len(invalid)} of {len(values)} values are no times of at least 0 ms; the first is "
        f"number {invalid[0]}: {first!r}"
    )


def is_timed(log: Log) -> bool:
    """Return whether a log contains the computation time of any unit."""
    return any(_computation_times(talk) for talk in log.talks)


def _computation_times(talk: TalkLog) -> set[int]:
    """Return the distinct computation times of a talk's units, in whole milliseconds."""
    # Delays and elapsed times may be rounded differently, and no system takes less than 0.5 ms.
    times: set[int] = set()
    for chunk in talk.chunks:
        if chunk.tokens:
            times.add(round(1000 * chunk.computation_s))
    instance = talk.instance or {}
    if "delays" in instance and "elapsed" in instance:
        for delay, elapsed in zip(instance["delays"], instance["elapsed"], strict=True):
            times.add(round(elapsed - delay))
    return times


def _units(talk: TalkLog) -> list[str]:
    """Return the units of a talk as logged."""
    if talk.instance is None:
        return talk.tokens
    return str(talk.instance["prediction"]).split()


def _text(talk: TalkLog) -> str:
    """Return the output of a talk; single characters are joined."""
    if talk.instance is not None:
        return str(talk.instance["prediction"])
    # Control tokens consist of several characters, which a log of characters contains one by one.
    characters = all(len(token) <= 1 for token in talk.tokens)
    return ("" if characters else " ").join(talk.tokens)
