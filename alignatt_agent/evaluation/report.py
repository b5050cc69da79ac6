"""Evaluation reports: tables for the terminal and ``report.md``, plots for ``report.html``."""

import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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

_ScoredRow = tuple[str, str, Mapping[str, float | None], str]
"""Configuration, target, values by column, and regime."""

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
_SIGNED_PACKAGES = ("alignatt_agent", "simulstream", "omnisteval", "vllm", "torch")
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
    names, score_rows = _scores(results, ceilings)
    single_config = len({result.config for result in results}) == 1
    rows: list[list[str]] = []
    for config, target, *values in score_rows:
        label = f"{config} {target}"
        if single_config and config != OFFLINE:
            label = target
        rows.append([label, *values])
    lines = [_table(["target", *names, "regime"], rows, "simple"), "", _legend(names)]
    return "\n".join([*lines, *remarks(results), *_facts(results)])


def remarks(results: Sequence[Result]) -> list[str]:
    """List doubtful and missing measures, and runs that are too slow for a live stream.

    LongYAAL does not reveal slow runs: even its computation-aware form ignores the backlog.
    """
    lines = []
    for run in results:
        texts = list(run.measured.get("notes", ()))
        texts += run.measured.get("failed", ())
        if (run.scores.rtf or 0.0) >= RTF_LIMIT:
            texts.append(
                f"too slow for a live stream: the lag would grow (RTF {run.scores.rtf:.2f}); "
                f"raise chunk_ms"
            )
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
    parts.append(_legend(names))
    parts += remarks(results)
    parts += _lag_section(results)
    parts += _cascade_section(results)
    if notes:
        parts += ["## Data", _list(notes)]
    parts += ["## Signature", _list(_facts(results))]
    # html_page splits the text at this heading.
    parts += ["## Equivalent official commands", "\n".join(["```sh", *commands, "```", ""])]
    return "\n\n".join(parts)


def html_page(runs: Sequence[tuple[Result, RunFiles]], text: str, ceilings: Ceilings = ()) -> str:
    """Return the report of ``markdown`` as one HTML file, with plots and a timeline."""
    results = [result for result, _ in runs]
    # Figures are drawn below, where a missing matplotlib is handled once.
    figures: list[tuple[str, Callable[[], str]]] = [
        ("Latency of every talk", lambda: latency_per_talk(results)),
        ("Quality against latency", lambda: quality_against_latency(results, ceilings)),
    ]
    with_stages = [result for result in results if "stages" in result.measured]
    if with_stages:
        figures.append(("Computation time of a chunk by stage", lambda: stage_times(with_stages)))
    for result, files in runs:
        if files.records.is_file():
            title = f"First {SHOWN_S:.0f} s of a talk: {result.config}, {result.target}"
            figures.append((title, partial(_timeline, files)))
            break
    drawn: list[str] = []
    for title, draw in figures:
        try:
            drawn.append(f"<figure>{draw()}<figcaption>{html.escape(title)}</figcaption></figure>")
        except FigureError as error:  # without matplotlib, no other figure can be drawn, either
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
    scored: list[_ScoredRow] = []
    measured: set[str] = set()
    for run in results:
        values: dict[str, float | None] = {}
        for name, (_, value) in _COLUMNS.items():
            values[name] = value(run)
            if values[name] is not None:
                measured.add(name)
        scored.append((run.config, run.target, values, run.regime))
    # A column that only off-line scores would fill is omitted.
    names = [name for name in _COLUMNS if name in measured]
    for ceiling in ceilings:
        values = {
            "BLEU": ceiling["bleu"],
            "chrF": ceiling["chrf"],
            "COMET": ceiling.get("comet", {}).get("score"),
            "WER %": ceiling.get("wer"),
        }
        scored.append((OFFLINE, ceiling["signature"]["target"], values, CEILING))
    rows: list[list[str]] = []
    for config, target, row_values, regime in scored:
        row = [config, target]
        for name in names:
            form, _ = _COLUMNS[name]
            row.append(_number(row_values.get(name), form))
        row.append(regime)
        rows.append(row)
    return names, rows


def _lag_section(results: Sequence[Result]) -> list[str]:
    head = ["configuration", "target", "clock", "mean", "p50", "p95", "p99", "longest silence"]
    head += ["backlog", "growth per minute"]
    rows: list[list[str]] = []
    for result in results:
        lag = result.measured.get("paced")
        if not lag:
            continue
        rows.append(
            [
                result.config,
                result.target,
                lag["clock"],
                f"{lag['mean_ms']:.0f} ms",
                f"{lag['p50_ms']:.0f} ms",
                f"{lag['p95_ms']:.0f} ms",
                f"{lag['p99_ms']:.0f} ms",
                f"{lag['longest_silence_s']:.1f} s",
                f"{lag['backlog_s']:.2f} s",
                f"{lag['growth_ms_per_min']:+.0f} ms",
            ]
        )
    return _section("Lag in real time", head, rows)


def _cascade_section(results: Sequence[Result]) -> list[str]:
    head = ["configuration", "target"]
    head += [f"{stage}, ms" for stage in STAGES]
    head += ["steps per transcript", "steps per emitted token", "stops"]
    rows: list[list[str]] = []
    for result in results:
        if "stages" not in result.measured:
            continue
        times = result.measured["stages"]["ms_per_chunk"]
        decoding = result.measured["decoding"]
        row = [result.config, result.target]
        row += [f"{times[stage]:.1f}" for stage in STAGES]
        row.append(_number(decoding.get("steps_per_transcript"), ".2f"))
        row.append(_number(decoding.get("steps_per_accepted"), ".2f"))
        stops = decoding["stops"].items()
        row.append(", ".join(f"{reason} {count}" for reason, count in stops))
        rows.append(row)
    return _section("Time per chunk and decoding", head, rows)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [f"## {title}", _table(head, rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], form: str = "pipe") -> str:
    sides = ["left" if name in _TEXTS else "right" for name in head]
    # Numbers are formatted already; tabulate would format them again.
    return str(tabulate(rows, head, form, colalign=sides, disable_numparse=True))


def _facts(results: Sequence[Result]) -> list[str]:
    """Return the signatures of all runs, without repetitions."""
    lines: list[str] = []
    for result in results:
        signature = result.signature
        facts = [f"config:{signature['config']}", f"sha256:{signature.get('config_sha256', '-')}"]
        facts += [f"{name}:{signature['versions'][name]}" for name in _SIGNED_PACKAGES]
        facts.append(str(signature["device"]))
        lines.append(" | ".join(facts))
        if "label" in signature:
            lines.append(f"** {signature['label']} **")
    return list(dict.fromkeys(lines))


def _legend(names: Sequence[str]) -> str:
    return "; ".join(legend for name, legend in _LEGENDS.items() if name in names)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"* {line}" for line in lines)


def _number(value: float | None, form: str) -> str:
    if value is None:
        return "-"
    return format(value, form)


def _timeline(files: RunFiles) -> str:
    """Draw the beginning of the first talk of a run."""
    steps = read_steps(files.records)
    first = next(steps)
    records = [first]
    for step in steps:
        if step.talk != first.talk:
            break
        records.append(step)
    log = parse_log(files.metrics)
    chunks = next(talk.chunks for talk in log.talks if talk.name == first.talk)
    recorded = recorded_times(files.clock) if files.clock.is_file() else {}
    # Only paced runs record times.
    times = recorded.get(first.talk) or simulated_times(chunks)
    done: dict[float, float] = {}
    for chunk, time_s in zip(chunks, times, strict=True):
        done[round(chunk.audio_s, 4)] = time_s
    return timeline(records, done, min(SHOWN_S, records[-1].audio_s))
