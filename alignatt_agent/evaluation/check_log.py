"""Rules for logs, shared by scoring and the submission checker.

The official scorer accepts any log: an appended rerun, a missing talk or an interrupted stream
only lowers the score. A submission must also be the unaltered log of one run: append-only, with
whole chunks and units.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from alignatt_agent.evaluation.delays import delay_faults
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import CLOCK_S, Log, LogError, TalkLog
from alignatt_agent.evaluation.subwords import REMEDY, kind_of_pieces

SHOWN = 3
"""Maximum number of line numbers in a message."""

_RERUN = (
    "Simulstream appends to an existing log: delete the log and run again (simulstream-eval does "
    "both), or keep only the lines of one run"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a rule such as ``"append-only"``; ``where`` is a file or ``FILE:LINE``."""

    rule: str
    where: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.where}: {self.message}\n    fix: {self.fix}"


def check_log(
    log: Log,
    where: str,
    talks: Mapping[str, float],
    unit: str,
    chunk_ms: int | None = None,
    joined: Sequence[str] = (),
) -> list[Finding]:
    """Check all rules that do not require the scorer; ``where`` names the log in messages.

    ``talks`` maps the stem of every recording to its length in seconds: the exact length with
    ``chunk_ms``, a minimum without it. ``chunk_ms`` is the chunk length of a submission; it enables
    the rules for submissions. Without it, only faults that change scores are reported. ``joined``
    lists the kinds of subwords that the scorers join (``subwords.joined_pieces``).
    """
    found = [*_readable(log, where), *_one_run(log, where, chunk_ms is not None)]
    found += _pieces(log, where, unit, joined)
    found += _all_talks(log, where, talks)
    for talk in log.talks:
        place = f"{where}:{talk.line}"
        if talk.silent:
            fix = "read run.log for the reason; silence is scored as a missing translation"
            found.append(Finding("empty-talk", place, f"{talk.name}: nothing was emitted", fix))
        if talk.instance is not None:
            # OmniSTEval itself compares the number of units with the number of delays.
            faults = delay_faults(talk, talks.get(talk.name))
            found += [Finding("delays", place, message, fix) for message, fix in faults]
            continue
        found += _positions(talk, place, talks.get(talk.name), chunk_ms)
        found += _units(talk, where, unit, chunk_ms is not None)
        if chunk_ms is not None:
            found += _append_only(talk, where)
    return found


def refuse(log: Log, devset: DevSet, unit: str, joined: Sequence[str] = ()) -> list[str]:
    """Reject a log that would be scored incorrectly; see ``check_log`` for the arguments.

    Return a warning for each talk without output; such talks are scored, but probably unintended.
    """
    expected = {
        talk.name: max(span.offset_s for span in devset.segments if span.talk == talk.name)
        for talk in devset.talks
    }
    found = check_log(log, log.path.name, expected, unit, joined=joined)
    silent = [item.message for item in found if item.rule == "empty-talk"]
    problems = [
        f"{item.where}: {item.message}; {item.fix}" for item in found if item.rule != "empty-talk"
    ]
    if len(silent) == len(log.talks) and not problems:
        audio = sum(talk.audio_s for talk in log.talks)
        problems = ["nothing was emitted " + (f"for {audio:.0f} s of audio" if audio else "at all")]
    if problems:
        raise LogError(f"{log.path} cannot be scored\n  " + "\n  ".join(problems))
    return silent


def _readable(log: Log, where: str) -> Iterator[Finding]:
    fix = "use the unaltered log of simulstream_inference"
    for line, problem in log.malformed[:SHOWN]:
        yield Finding("log-format", f"{where}:{line}", problem, fix)
    if len(log.malformed) > SHOWN:
        message = f"{len(log.malformed)} lines are malformed; only the first few are listed"
        yield Finding("log-format", where, message, fix)
    if not (log.malformed or log.talks or log.loadings):
        yield Finding("log-format", where, "the log is empty", "read run.log for the reason")


def _one_run(log: Log, where: str, claimed: bool) -> Iterator[Finding]:
    counts = Counter(talk.name for talk in log.talks)
    twice = [name for name, count in counts.items() if count > 1]
    if len(log.loadings) > 1 and (claimed or twice):
        message = (
            f"the log contains {len(log.loadings)} runs, which start at {_lines(log.loadings)}: "
            f"another run was appended"
        )
        yield Finding("rerun-appended", where, message, _RERUN)
    elif not log.loadings and claimed:
        message = "the log contains no line with model_loading_time: its beginning is missing"
        yield Finding("log-format", where, message, "use the complete log")
    for name in twice:
        lines = _lines([talk.line for talk in log.talks if talk.name == name])
        message = f"{name} was streamed {counts[name]} times ({lines})"
        yield Finding("duplicate-talk", where, message, _RERUN)


def _all_talks(log: Log, where: str, talks: Mapping[str, float]) -> Iterator[Finding]:
    found = {talk.name: None for talk in log.talks}
    missing = [name for name in talks if name not in found]
    unknown = [name for name in found if name not in talks]
    if missing:
        message = (
            f"the log contains {len(talks) - len(missing)} of {len(talks)} talks; missing: "
            f"{', '.join(missing)}"
        )
        yield Finding("missing-talk", where, message, "stream the whole dev set in one run")
    if unknown:
        message = f"the log contains talks that are not in the segmentation: {', '.join(unknown)}"
        yield Finding("unknown-talk", where, message, "stream only this dev set")


def _pieces(log: Log, where: str, unit: str, joined: Sequence[str]) -> Iterator[Finding]:
    texts = [talk.instance["prediction"] for talk in log.talks if talk.instance is not None]
    units = [part for text in texts for part in str(text).split()]
    found = kind_of_pieces(units or [token for talk in log.talks for token in talk.tokens])
    if found is None or found[0] in joined:
        return
    kind, example = found
    message = f"the units are {kind} pieces, e.g. {example!r}, which would be joined as {unit}s"
    fix = "write the joined text as the prediction" if texts else REMEDY
    yield Finding("units", where, message, fix)


def _positions(
    talk: TalkLog, place: str, needed_s: float | None, chunk_ms: int | None
) -> Iterator[Finding]:
    """Check that audio positions increase in whole chunks to the end of the recording."""
    back = [(a, b) for a, b in pairwise(talk.chunks) if b.audio_s < a.audio_s - CLOCK_S]
    if back:
        before, after = back[0]
        message = (
            f"{talk.name} jumps back from {before.audio_s:.2f} s to {after.audio_s:.2f} s "
            f"({_lines([chunk.line for _, chunk in back])}); two streams have the same id"
        )
        yield Finding("rerun-appended", place, message, _RERUN)
    elif chunk_ms is not None:
        off = [
            chunk.line
            for number, chunk in enumerate(talk.chunks[:-1], 1)
            if abs(chunk.audio_s - number * chunk_ms / 1000) > CLOCK_S
        ]
        if off:
            message = (
                f"{talk.name}: the audio positions are not multiples of {chunk_ms} ms (chunk_ms): "
                f"{_lines(off)}"
            )
            fix = "use the unaltered log of simulstream_inference and the agent.yaml of that run"
            yield Finding("chunks", place, message, fix)
    if needed_s is None:
        return
    exactly = chunk_ms is not None
    if talk.audio_s < needed_s - CLOCK_S or (exactly and talk.audio_s > needed_s + CLOCK_S):
        end = "the audio is {:.3f} s long" if exactly else "the last segment starts at {:.1f} s"
        message = f"{talk.name}: processed up to {talk.audio_s:.3f} s, but {end.format(needed_s)}"
        fix = "the run was interrupted: stream the whole recording again"
        yield Finding("cut-talk", place, message, fix)


def _append_only(talk: TalkLog, where: str) -> Iterator[Finding]:
    deleting = [chunk for chunk in talk.chunks if chunk.deleted]
    if deleting:
        count = sum(len(chunk.deleted) for chunk in deleting)
        lines = _lines([chunk.line for chunk in deleting])
        message = f"{count} tokens of {talk.name} were deleted ({lines})"
        fix = "output must be append-only: emit only final units"
        yield Finding("append-only", f"{where}:{deleting[0].line}", message, fix)


def _units(talk: TalkLog, where: str, unit: str, claimed: bool) -> Iterator[Finding]:
    """Check units: Simulstream splits at ASCII spaces, OmniSTEval at any white space."""
    broken = [
        (chunk.line, token, problem)
        for chunk in talk.chunks
        for token in chunk.tokens
        if (problem := _unit_problem(token, unit, claimed))
    ]
    if not broken:
        return
    line, token, problem = broken[0]
    message = f"{talk.name}: {len(broken)} invalid unit(s): {token!r} {problem}"
    fix = (
        "emit whole words without white space"
        if unit == "word"
        else "emit single characters and no white space (latency_unit: char)"
    )
    yield Finding("units", f"{where}:{line}", message, fix)


def _unit_problem(token: str, unit: str, claimed: bool) -> str | None:
    if claimed and not token:
        return "is empty"
    if claimed and unit == "char" and len(token) > 1:
        return f"is {len(token)} characters long"
    spaces = [char for char in token if char.isspace() and (claimed or char != " ")]
    if spaces and (claimed or unit == "word"):
        return "contains white space, which the scorers count differently"
    return None


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"
