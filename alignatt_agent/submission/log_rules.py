"""What a dev log has to fulfil before it is worth scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.log import CLOCK_S, SHOWN, Log, TalkLog
from alignatt_agent.submission.findings import Finding

_RERUN = (
    "Simulstream appends to an existing log: delete it and run again, or use simulstream-eval, "
    "which starts a fresh one"
)


def check_log(
    log: Log, where: str, talks: Mapping[str, float], chunk_ms: int, target: str
) -> list[Finding]:
    """Apply every rule that needs no scorer.

    Args:
        log: the log.
        where: its name in messages.
        talks: length in seconds of every recording of the dev set, by stem.
        chunk_ms: audio per step, as the configuration says.
        target: target language code; decides the unit.
    """
    return [
        *_readable(log, where),
        *_one_run(log, where),
        *_all_talks(log, where, talks),
        *(finding for talk in log.talks for finding in _steps(talk, where, talks, chunk_ms)),
        *(finding for talk in log.talks for finding in _append_only(talk, where)),
        *(finding for talk in log.talks for finding in _units(talk, where, target)),
    ]


def _readable(log: Log, where: str) -> list[Finding]:
    fix = "hand in the log as simulstream_inference wrote it"
    findings = [
        Finding("log-format", f"{where}:{line}", problem, fix)
        for line, problem in log.malformed[:SHOWN]
    ]
    if len(log.malformed) > SHOWN:
        message = f"{len(log.malformed)} lines are malformed, the first of them above"
        findings.append(Finding("log-format", where, message, fix))
    return findings


def _one_run(log: Log, where: str) -> list[Finding]:
    findings = []
    if len(log.loadings) > 1:
        message = f"holds {len(log.loadings)} runs, which start at {_lines(log.loadings)}"
        findings.append(Finding("rerun-appended", where, message, _RERUN))
    elif not log.loadings:
        message = "has no line with model_loading_time: its beginning is cut off"
        findings.append(Finding("log-format", where, message, "hand in the whole log"))
    for name, count in Counter(talk.name for talk in log.talks).items():
        if count > 1:
            lines = _lines([talk.line for talk in log.talks if talk.name == name])
            message = f"{name} was streamed {count} times ({lines})"
            findings.append(Finding("duplicate-talk", where, message, _RERUN))
    return findings


def _all_talks(log: Log, where: str, talks: Mapping[str, float]) -> list[Finding]:
    names = {talk.name for talk in log.talks}
    findings = [
        Finding(
            "missing-talk",
            where,
            f"{name} of the dev set is not in the log ({len(names & talks.keys())} of "
            f"{len(talks)} are)",
            "stream the whole dev set in one run",
        )
        for name in sorted(talks.keys() - names)
    ]
    findings += [
        Finding(
            "unknown-talk",
            where,
            f"{name} is not a recording of the dev set",
            "stream the dev set that the bundle holds, and nothing else",
        )
        for name in sorted(names - talks.keys())
    ]
    return findings


def _steps(talk: TalkLog, where: str, talks: Mapping[str, float], chunk_ms: int) -> list[Finding]:
    """Positions rise chunk by chunk up to the end of the recording."""
    findings = []
    place = f"{where}:{talk.line}"
    back = [step.line for _, step in talk.returns()]
    if back:
        message = f"the audio of {talk.name} goes back at {_lines(back)}"
        findings.append(Finding("rerun-appended", place, message, _RERUN))
    chunk = chunk_ms / 1000
    off = [
        step.line
        for number, step in enumerate(talk.steps[:-1], 1)
        if abs(step.audio_s - number * chunk) > CLOCK_S
    ]
    if off and not back:
        message = f"{talk.name}: {_lines(off)} are not whole steps of {chunk_ms} ms (chunk_ms)"
        fix = "hand in the unaltered log of simulstream_inference with the agent.yaml next to it"
        findings.append(Finding("chunks", place, message, fix))
    length = talks.get(talk.name)
    if length is not None and abs(talk.heard_s - length) > CLOCK_S:
        message = f"{talk.name} ends after {talk.heard_s:.3f} s of its {length:.3f} s"
        findings.append(Finding("cut-talk", place, message, "stream the whole recording again"))
    if not any(token.strip() for token in talk.tokens):
        message = f"nothing was emitted for {talk.name}"
        fix = "look into run.log for the reason; silence is scored as a missing translation"
        findings.append(Finding("empty-talk", place, message, fix))
    return findings


def _append_only(talk: TalkLog, where: str) -> list[Finding]:
    deleting = [step for step in talk.steps if step.deleted]
    if not deleting:
        return []
    count = sum(len(step.deleted) for step in deleting)
    message = f"{count} tokens of {talk.name} were deleted ({_lines([s.line for s in deleting])})"
    fix = "the bundle claims append-only output: emit nothing that may be revoked"
    return [Finding("append-only", f"{where}:{deleting[0].line}", message, fix)]


def _units(talk: TalkLog, where: str, target: str) -> list[Finding]:
    """Simulstream counts delays by the ASCII space, OmniSTEval units by any white space."""
    spaced = language(target).spaced
    broken: list[tuple[int, str]] = []
    for step in talk.steps:
        for token in step.tokens:
            if any(char.isspace() for char in token):
                broken.append((step.line, f"{token!r} holds white space"))
            elif not token:
                broken.append((step.line, "a token is empty"))
            elif not spaced and len(token) > 1:
                broken.append((step.line, f"{token!r} is {len(token)} characters"))
    text = (" " if spaced else "").join(talk.tokens)
    simulstream = len([unit for unit in text.split(" ") if unit]) if spaced else len(text)
    omnisteval = len(text.split()) if spaced else len("".join(text.split()))
    findings = []
    fix = (
        "emit whole words without any white space in them"
        if spaced
        else "emit single characters and no white space (latency_unit: char)"
    )
    if broken:
        line, problem = broken[0]
        message = f"{len(broken)} tokens of {talk.name} are not units; line {line}: {problem}"
        findings.append(Finding("units", f"{where}:{line}", message, fix))
    if simulstream != omnisteval:
        message = (
            f"{talk.name}: {simulstream} units by Simulstream's split, "
            f"{omnisteval} by OmniSTEval's; each unit needs one delay"
        )
        findings.append(Finding("units", f"{where}:{talk.line}", message, fix))
    return findings


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"
