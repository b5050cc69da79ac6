"""Evaluation reports: tables for the terminal and ``report.md``, plots for ``report.html``."""

import html
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from markdown_it import MarkdownIt
from tabulate import tabulate

from alignatt_agent.evaluation.latency import recorded_times, simulated_times
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.plots import (
    FigureError,
    latency_per_talk,
    quality_against_latency,
    stage_times,
    timeline,
)
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Result
from alignatt_agent.evaluation.trace import read_steps
from alignatt_agent.types.stopwatch import STAGES

RTF_LIMIT = 0.9
"""Minimum real-time factor of runs that are reported as too slow for a live stream."""

SHOWN_S = 30.0
"""Length of the timeline, in seconds."""

OFFLINE, CEILING = "off-line", "quality ceiling"

Ceilings = Sequence[Mapping[str, Any]]
"""Contents of ``offline.json`` files."""

_COLUMNS: dict[str, tuple[str, Callable[[Result], float | None]]] = {
    "BLEU": (".2f", lambda run: run.scores.bleu),
    "chrF": (".2f", lambda run: run.scores.chrf),
    "COMET": (".4f", lambda run: run.measured.get("comet", {}).get("score")),
    "CU ms": (".0f", lambda run: run.scores.longyaal_cu_ms),
    "CA ms": (".0f", lambda run: run.scores.longyaal_ca_ms),
    "paced": (".0f", lambda run: run.measured.get("paced", {}).get("longyaal_ms")),
    "SLAAL": (".0f", lambda run: run.measured.get("stream_laal_cu_ms")),
    "WER %": (".2f", lambda run: run.measured.get("transcript", {}).get("wer")),
    "RTF": (".3f", lambda run: run.scores.rtf),
}
_LEGENDS = {
    "CU ms": "CU, CA: LongYAAL, computation-unaware and -aware (OmniSTEval, longform)",
    "paced": "paced: LongYAAL in real time, including the backlog",
    "SLAAL": "SLAAL: StreamLAAL, computation-unaware, ms",
    "WER %": "WER: word error rate (character error rate in languages without spaces)",
}
_TEXTS = {"configuration", "target", "clock", "regime", "stops"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem; margin: 2rem auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; }
svg { max-width: 100%; height: auto; }
figcaption { color: #666; font-size: 13px; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: 12px; }
"""


def score_table(results: Sequence[Result], ceilings: Ceilings = ()) -> str:
    """Format the scores of all runs and off-line rows for a terminal, with their signatures.

    Columns without a value are omitted.
    """
    names, rows = _scores(results, ceilings)
    one = len({result.config for result in results}) == 1
    labels = [row[1] if one and row[0] != OFFLINE else f"{row[0]} {row[1]}" for row in rows]
    shown = [[label, *row[2:]] for label, row in zip(labels, rows, strict=True)]
    lines = [_table(["target", *names, "regime"], shown, "simple"), "", _legend(names)]
    return "\n".join([*lines, *remarks(results), *_facts(results)])


def remarks(results: Sequence[Result]) -> list[str]:
    """List doubtful and missing measures, and runs that are too slow for a live stream.

    LongYAAL does not reveal slow runs: even its computation-aware form ignores the backlog.
    """
    lines = []
    for run in results:
        texts = [*run.measured.get("notes", ()), *run.measured.get("failed", ())]
        if (run.scores.rtf or 0.0) >= RTF_LIMIT:
            slow = "too slow for a live stream: the lag would grow"
            texts.append(f"{slow} (RTF {run.scores.rtf:.2f}); raise chunk_ms")
        lines += [f"{run.config} {run.target}: {text}" for text in texts]
    return lines


def markdown(
    results: Sequence[Result],
    commands: Sequence[str],
    notes: Sequence[str],
    ceilings: Ceilings = (),
) -> str:
    """Format the report: scores, equivalent official commands, and notes on the data."""
    names, rows = _scores(results, ceilings)
    parts = ["# Evaluation", _table(["configuration", "target", *names, "regime"], rows)]
    parts += [_legend(names), *remarks(results), *_paced(results), *_inside(results)]
    if notes:
        parts += ["## Data", _list(notes)]
    parts += ["## Signature", _list(_facts(results)), "## Equivalent official commands"]
    return "\n\n".join([*parts, "\n".join(["```sh", *commands, "```", ""])])


def html_page(runs: Sequence[tuple[Result, RunFiles]], text: str, ceilings: Ceilings = ()) -> str:
    """Return the report of ``markdown`` as one HTML file, with plots and a timeline."""
    results = [result for result, _ in runs]
    figures: list[tuple[str, Callable[[], str]]] = [
        ("Latency of every talk", lambda: latency_per_talk(results)),
        ("Quality against latency", lambda: quality_against_latency(results, ceilings)),
    ]
    inside = [result for result in results if "stages" in result.measured]
    if inside:
        figures.append(("Computation time of a chunk by stage", lambda: stage_times(inside)))
    traced = next((run for run in runs if run[1].records.is_file()), None)
    if traced is not None:
        title = f"First {SHOWN_S:.0f} s of a talk: {traced[0].config}, {traced[0].target}"
        figures.append((title, lambda: _timeline(traced[1])))
    drawn = []
    for title, draw in figures:
        try:
            drawn.append(f"<figure>{draw()}<figcaption>{html.escape(title)}</figcaption></figure>")
        except FigureError as error:
            drawn.append(f"<p>No plots: {html.escape(str(error))}.</p>")
            break
    # Inline markup is off, because configuration names may contain any character.
    render = MarkdownIt("zero").enable(["table", "heading", "list", "fence"]).render
    tables, heading, commands = text.partition("## Equivalent")
    body = "".join([render(tables), *drawn, render(heading + commands)])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Evaluation</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _scores(results: Sequence[Result], ceilings: Ceilings) -> tuple[list[str], list[list[str]]]:
    """Return the columns with values, and rows of configuration, target, values and regime."""
    found = [{name: value(run) for name, (_, value) in _COLUMNS.items()} for run in results]
    names = [name for name in _COLUMNS if any(values[name] is not None for values in found)]
    rows = [(r.config, r.target, v, r.regime) for r, v in zip(results, found, strict=True)]
    for row in ceilings:
        offline = {"BLEU": row["bleu"], "chrF": row["chrf"], "WER %": row.get("wer")}
        offline["COMET"] = row.get("comet", {}).get("score")
        rows.append((OFFLINE, row["signature"]["target"], offline, CEILING))
    return names, [
        [config, target, *(_number(values.get(name), _COLUMNS[name][0]) for name in names), regime]
        for config, target, values, regime in rows
    ]


def _paced(results: Sequence[Result]) -> list[str]:
    head = ["configuration", "target", "clock", "mean", "p50", "p95", "p99", "longest silence"]
    rows = [
        [
            *(result.config, result.target, paced["clock"]),
            *(f"{paced[name]:.0f} ms" for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")),
            f"{paced['longest_silence_s']:.1f} s",
            f"{paced['backlog_s']:.2f} s",
            f"{paced['growth_ms_per_min']:+.0f} ms",
        ]
        for result in results
        if (paced := result.measured.get("paced"))
    ]
    return _section("Lag in real time", [*head, "backlog", "growth per minute"], rows)


def _inside(results: Sequence[Result]) -> list[str]:
    rows = []
    for result in (result for result in results if "stages" in result.measured):
        times, decoding = result.measured["stages"]["ms_per_chunk"], result.measured["decoding"]
        ratios = (decoding.get(f"steps_per_{name}") for name in ("transcript", "accepted"))
        stops = ", ".join(f"{name} {count}" for name, count in decoding["stops"].items())
        shown = [*(f"{times[stage]:.1f}" for stage in STAGES), *(_number(x, ".2f") for x in ratios)]
        rows.append([result.config, result.target, *shown, stops])
    head = ["configuration", "target", *(f"{stage}, ms" for stage in STAGES)]
    head += ["steps per transcript", "steps per emitted token", "stops"]
    return _section("Time per chunk and decoding", head, rows)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"## {title}", _table(head, rows)] if rows else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], form: str = "pipe") -> str:
    sides = ["left" if name in _TEXTS else "right" for name in head]
    return str(tabulate(rows, head, form, colalign=sides, disable_numparse=True))


def _facts(results: Sequence[Result]) -> list[str]:
    lines: list[str] = []
    for signature in (result.signature for result in results):
        names = ("alignatt_agent", "simulstream", "omnisteval", "vllm", "torch")
        facts = [f"config:{signature['config']}", f"sha256:{signature.get('config_sha256', '-')}"]
        facts += [f"{name}:{signature['versions'][name]}" for name in names]
        lines.append(" | ".join([*facts, str(signature["device"])]))
        if "label" in signature:
            lines.append(f"** {signature['label']} **")
    return list(dict.fromkeys(lines))


def _legend(names: Sequence[str]) -> str:
    return "; ".join(legend for name, legend in _LEGENDS.items() if name in names)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"* {line}" for line in lines)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _timeline(files: RunFiles) -> str:
    """Draw the beginning of the first talk of a run."""
    steps = read_steps(files.records)
    first = next(steps)
    records = [first, *takewhile(lambda step: step.talk == first.talk, steps)]
    log = next(log for log in parse_log(files.metrics).talks if log.name == first.talk)
    recorded = recorded_times(files.clock) if files.clock.is_file() else {}
    times = recorded.get(log.name) or simulated_times(log.chunks)
    done = {round(step.audio_s, 4): time for step, time in zip(log.chunks, times, strict=True)}
    return timeline(records, done, min(SHOWN_S, records[-1].audio_s))
