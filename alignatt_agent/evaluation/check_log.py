"""What would make a log score wrongly.

The official scorer joins what it finds, so a rerun appended to a log, a talk that is missing or a
stream that was cut would be scored as if the system had been bad. Here they are named.
"""

from __future__ import annotations

from pathlib import Path

from alignatt_agent.evaluation.devset import DevSet, Talk
from alignatt_agent.evaluation.log import LogError, TalkLog, log_format, parse_log, read_lines


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
    jsonl = log_format(path) == "jsonl"
    check = _check_jsonl if jsonl else _check_simulstream
    problems, warnings = check(path, devset, latency_unit)
    if problems:
        raise LogError.listing(path, problems)
    return warnings


def _check_simulstream(
    path: Path, devset: DevSet, latency_unit: str
) -> tuple[list[str], list[str]]:
    log = parse_log(path)
    problems = log.problems() + _names([talk.name for talk in log.talks], devset)
    known = {talk.name: talk for talk in devset.talks}
    for talk in log.talks:
        if talk.name in known:
            problems += _check_heard(talk, known[talk.name])
        problems += _check_units(talk, latency_unit)
    if not problems and not any(talk.emitted for talk in log.talks):
        heard = sum(talk.heard_s for talk in log.talks)
        problems.append(f"nothing was emitted for {heard:.0f} s of audio")
    return problems, [f"{talk.name}: nothing was emitted" for talk in log.talks if not talk.emitted]


def _check_jsonl(path: Path, devset: DevSet, latency_unit: str) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    warnings: list[str] = []
    names: list[str] = []
    for number, line in read_lines(path):
        if isinstance(line, str):
            problems.append(f"line {number}: {line}")
            continue
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
    problems += _names(names, devset)
    if len(warnings) == len(names):
        problems.append("nothing was emitted at all")
    return problems, warnings


def _names(names: list[str], devset: DevSet) -> list[str]:
    found = list(dict.fromkeys(names))
    expected = [talk.name for talk in devset.talks]
    missing = [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected]
    problems = []
    if missing:
        problems.append(
            f"talks missing from the log: {', '.join(missing)} "
            f"({len(expected) - len(missing)} of {len(expected)} are there)"
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
    bad = {token for token in log.tokens if any(char.isspace() and char != " " for char in token)}
    if not bad or latency_unit == "char":
        return []
    shown = ", ".join(repr(token) for token in sorted(bad)[:3])
    return [
        f"{log.name}: {len(bad)} units hold white space that is not U+0020 ({shown}), which "
        f"scorers count differently; the agent has to split or strip them"
    ]
