"""Rules for logs, shared by scoring and the submission checker.

The official scorer accepts any log: an appended rerun, a missing talk or an interrupted stream
only lowers the score. A submission must also be the unaltered log of one run: append-only, with
whole chunks and units.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from alignatt_agent.evaluation.delays import delay_faults, incomplete_keys
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import CLOCK_S, Log, LogError, LoggedChunk, TalkLog
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
    submission = chunk_ms is not None
    findings = [*_readable(log, where), *_one_run(log, where, submission)]
    findings += _subwords(log, where, unit, joined)
    findings += _all_talks(log, where, talks)
    for message, fix in incomplete_keys(log):
        findings.append(Finding("delays", where, message, fix))
    for talk in log.talks:
        place = f"{where}:{talk.line}"
        length_s = talks.get(talk.name)
        if talk.silent:
            fix = "read run.log for the reason; silence is scored as a missing translation"
            message = f"{talk.name}: nothing was emitted"
            findings.append(Finding("empty-talk", place, message, fix))
        if talk.instance is not None:
            # A JSONL log has no chunks.
            for message, fix in delay_faults(talk, length_s, unit):
                findings.append(Finding("delays", place, message, fix))
            continue
        findings += _positions(talk, place, length_s, chunk_ms)
        findings += _units(talk, where, unit, submission)
        if submission:
            findings += _append_only(talk, where)
    return findings


def refuse(log: Log, devset: DevSet, unit: str, joined: Sequence[str] = ()) -> list[str]:
    """Reject a log that would be scored incorrectly; see ``check_log`` for the arguments.

    Return a warning for each talk without output; such talks are scored, but probably unintended.

    Raises:
        LogError: the log cannot be scored.
    """
    last_starts_s: dict[str, float] = {}
    for span in devset.segments:
        latest_s = last_starts_s.get(span.talk, 0.0)
        last_starts_s[span.talk] = max(latest_s, span.offset_s)
    warnings: list[str] = []
    problems: list[str] = []
    for finding in check_log(log, log.path.name, last_starts_s, unit, joined=joined):
        if finding.rule == "empty-talk":
            warnings.append(finding.message)
        else:
            problems.append(f"{finding.where}: {finding.message}; {finding.fix}")
    # One silent talk only lowers the score, but without any output there is nothing to score.
    if len(warnings) == len(log.talks) and not problems:
        extent = f"for {log.audio_s:.0f} s of audio" if log.audio_s else "at all"
        problems.append(f"nothing was emitted {extent}")
    if problems:
        raise LogError(f"{log.path} cannot be scored\n  " + "\n  ".join(problems))
    return warnings


def _readable(log: Log, where: str) -> Iterator[Finding]:
    fix = "use the unaltered log of simulstream_inference"
    for line, problem in log.malformed[:SHOWN]:
        yield Finding("log-format", f"{where}:{line}", problem, fix)
    if len(log.malformed) > SHOWN:
        message = f"{len(log.malformed)} lines are malformed; only the first few are listed"
        yield Finding("log-format", where, message, fix)
    if not (log.malformed or log.talks or log.loadings):
        yield Finding("log-format", where, "the log is empty", "read run.log for the reason")


def _one_run(log: Log, where: str, submission: bool) -> Iterator[Finding]:
    lines_of_talk: dict[str, list[int]] = {}
    for talk in log.talks:
        lines_of_talk.setdefault(talk.name, []).append(talk.line)
    repeated = len(log.talks) > len(lines_of_talk)
    # Several runs can stream a dev set in parts; only a submission must be a single run.
    if len(log.loadings) > 1 and (submission or repeated):
        message = (
            f"the log contains {len(log.loadings)} runs, which start at {_lines(log.loadings)}: "
            f"another run was appended"
        )
        yield Finding("rerun-appended", where, message, _RERUN)
    elif not log.loadings and submission:
        message = "the log contains no line with model_loading_time: its beginning is missing"
        yield Finding("log-format", where, message, "use the complete log")
    for name, lines in lines_of_talk.items():
        if len(lines) > 1:
            message = f"{name} was streamed {len(lines)} times ({_lines(lines)})"
            yield Finding("duplicate-talk", where, message, _RERUN)


def _all_talks(log: Log, where: str, talks: Mapping[str, float]) -> Iterator[Finding]:
    logged = dict.fromkeys(talk.name for talk in log.talks)  # each name once, in order
    missing = [name for name in talks if name not in logged]
    unknown = [name for name in logged if name not in talks]
    if missing:
        message = (
            f"the log contains {len(talks) - len(missing)} of {len(talks)} talks; missing: "
            f"{', '.join(missing)}"
        )
        yield Finding("missing-talk", where, message, "stream the whole dev set in one run")
    if unknown:
        message = f"the log contains talks that are not in the segmentation: {', '.join(unknown)}"
        yield Finding("unknown-talk", where, message, "stream only this dev set")


def _subwords(log: Log, where: str, unit: str, joined: Sequence[str]) -> Iterator[Finding]:
    predicted: list[str] = []
    emitted: list[str] = []
    for talk in log.talks:
        emitted += talk.tokens
        if talk.instance is not None:
            predicted += str(talk.instance["prediction"]).split()
    detected = kind_of_pieces(predicted or emitted)
    if detected is None:
        return
    kind, example = detected
    if kind in joined:
        return
    message = f"the units are {kind} pieces, e.g. {example!r}, which would be joined as {unit}s"
    # Only Simulstream's logs state in a YAML file how to join their units.
    fix = "write the joined text as the prediction" if predicted else REMEDY
    yield Finding("units", where, message, fix)


def _positions(
    talk: TalkLog, place: str, needed_s: float | None, chunk_ms: int | None
) -> Iterator[Finding]:
    """Check that audio positions increase in whole chunks to the end of the recording."""
    jumps: list[tuple[LoggedChunk, LoggedChunk]] = []
    for before, after in pairwise(talk.chunks):
        if after.audio_s < before.audio_s - CLOCK_S:
            jumps.append((before, after))
    # After a jump back, the positions mix two streams, so they are not compared with chunk_ms.
    if jumps:
        before, after = jumps[0]
        lines = _lines([chunk.line for _, chunk in jumps])
        message = (
            f"{talk.name} jumps back from {before.audio_s:.2f} s to {after.audio_s:.2f} s "
            f"({lines}); two streams have the same id"
        )
        yield Finding("rerun-appended", place, message, _RERUN)
    elif chunk_ms is not None:
        uneven: list[int] = []
        # The last chunk is as long as the rest of the recording.
        for number, chunk in enumerate(talk.chunks[:-1], 1):
            expected_s = number * chunk_ms / 1000
            if abs(chunk.audio_s - expected_s) > CLOCK_S:
                uneven.append(chunk.line)
        if uneven:
            message = (
                f"{talk.name}: the audio positions are not multiples of {chunk_ms} ms (chunk_ms): "
                f"{_lines(uneven)}"
            )
            fix = "use the unaltered log of simulstream_inference and the agent.yaml of that run"
            yield Finding("chunks", place, message, fix)
    if needed_s is None:
        return
    # A submission ends with its recording. Any other log must reach the last segment, at least.
    too_short = talk.audio_s < needed_s - CLOCK_S
    too_long = False
    end = f"the last segment starts at {needed_s:.1f} s"
    if chunk_ms is not None:
        too_long = talk.audio_s > needed_s + CLOCK_S
        end = f"the audio is {needed_s:.3f} s long"
    if too_short or too_long:
        message = f"{talk.name}: processed up to {talk.audio_s:.3f} s, but {end}"
        fix = "the run was interrupted: stream the whole recording again"
        yield Finding("cut-talk", place, message, fix)


def _append_only(talk: TalkLog, where: str) -> Iterator[Finding]:
    count = 0
    lines: list[int] = []
    for chunk in talk.chunks:
        if chunk.deleted:
            count += len(chunk.deleted)
            lines.append(chunk.line)
    if lines:
        message = f"{count} tokens of {talk.name} were deleted ({_lines(lines)})"
        fix = "output must be append-only: emit only final units"
        yield Finding("append-only", f"{where}:{lines[0]}", message, fix)


def _units(talk: TalkLog, where: str, unit: str, submission: bool) -> Iterator[Finding]:
    """Check units: Simulstream splits at ASCII spaces, OmniSTEval at any white space."""
    invalid: list[tuple[int, str, str]] = []
    for chunk in talk.chunks:
        for token in chunk.tokens:
            problem = _unit_problem(token, unit, submission)
            if problem is not None:
                invalid.append((chunk.line, token, problem))
    if not invalid:
        return
    line, token, problem = invalid[0]
    message = f"{talk.name}: {len(invalid)} invalid unit(s): {token!r} {problem}"
    fix = "emit single characters and no white space (latency_unit: char)"
    if unit == "word":
        fix = "emit whole words without white space"
    yield Finding("units", f"{where}:{line}", message, fix)


def _unit_problem(token: str, unit: str, submission: bool) -> str | None:
    if submission and not token:
        return "is empty"
    if submission and unit == "char" and len(token) > 1:
        return f"is {len(token)} characters long"
    # Both scorers split at ASCII spaces, so these change no score.
    counted = token if submission else token.replace(" ", "")
    has_space = any(char.isspace() for char in counted)
    if has_space and (submission or unit == "word"):
        return "contains white space, which the scorers count differently"
    return None


def _lines(numbers: list[int]) -> str:
    """Return e.g. ``line 7`` or ``lines 7, 9, 12 and 4 more``."""
    noun = "line" if len(numbers) == 1 else "lines"
    listed = ", ".join(map(str, numbers[:SHOWN]))
    if len(numbers) > SHOWN:
        return f"{noun} {listed} and {len(numbers) - SHOWN} more"
    return f"{noun} {listed}"
