"""The report of a call as one HTML file: tables, plots, and the timeline of one talk."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.log import LogError, read_log
from alignatt_agent.evaluation.paced import read_times, schedule
from alignatt_agent.evaluation.plots import (
    latency_per_talk,
    quality_against_latency,
    stage_times,
    timeline,
)
from alignatt_agent.evaluation.plotting import FigureError
from alignatt_agent.evaluation.report import Result
from alignatt_agent.evaluation.results import Ceiling
from alignatt_agent.evaluation.trace import Record, read_records

SHOWN_S = 30.0
"""Seconds of the talk whose timeline is drawn."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), td:last-child {
  text-align: left; }
svg { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; }
figcaption, footer { color: #666; font-size: 13px; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: 12px; }
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A scored run and where its files are."""

    result: Result
    folder: Path


def page(sources: Sequence[Source], markdown: str, ceilings: Sequence[Ceiling] = ()) -> str:
    """Return the whole report.

    Args:
        sources: scored runs.
        markdown: the report as ``report.markdown`` writes it; its tables are shown as they are.
        ceilings: off-line rows.
    """
    results = [source.result for source in sources]
    parts = [_from_markdown(markdown.split("## The same")[0])]
    figures: list[tuple[str, Callable[[], str]]] = [
        ("Latency of every talk", lambda: latency_per_talk(results)),
        ("Quality against latency", lambda: quality_against_latency(results, ceilings)),
    ]
    inside = [result for result in results if "stages" in result.measured]
    if inside:
        figures.append(("Where the time of a chunk goes", lambda: stage_times(inside)))
    traced = next((source for source in sources if _records(source).is_file()), None)
    if traced is not None:
        title = f"First {SHOWN_S:.0f} s of a talk: {traced.result.config}, {traced.result.target}"
        figures.append((title, lambda: _timeline(traced)))
    for title, draw in figures:
        try:
            parts.append(f"<figure>{draw()}<figcaption>{html.escape(title)}</figcaption></figure>")
        except FigureError as error:
            parts.append(f"<p>No plots: {html.escape(str(error))}.</p>")
            break
    commands = markdown.partition("```sh\n")[2].partition("```")[0]
    parts.append(f"<h2>The same with the official commands</h2><pre>{html.escape(commands)}</pre>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Evaluation</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _timeline(source: Source) -> str:
    records = list(islice(_first_talk(_records(source)), 1000))
    done: dict[float, float] = {}
    try:
        logs = {log.name: log for log in read_log(source.folder / "metrics.jsonl")}
        log = logs[records[0].talk]
        clock = source.folder / "paced.jsonl"
        times = read_times(clock)[log.name] if clock.is_file() else schedule(log.steps)
        done = {round(step.audio_s, 4): time for step, time in zip(log.steps, times, strict=True)}
    except (LogError, KeyError, IndexError):
        pass  # without a clock the emissions stand where the audio was
    end = min(SHOWN_S, records[-1].audio_s) if records else SHOWN_S
    joiner = " " if language(source.result.target).spaced else ""
    return timeline(records, done, end, joiner)


def _first_talk(path: Path) -> list[Record]:
    found: list[Record] = []
    for record in read_records(path):
        if found and (record.talk != found[0].talk or found[-1].audio_s > SHOWN_S):
            break
        found.append(record)
    return found


def _records(source: Source) -> Path:
    return source.folder / "steps.jsonl"


def _from_markdown(text: str) -> str:
    """Render the little Markdown that our report is made of: headings, tables, lists, lines."""
    parts: list[str] = []
    rows: list[str] = []
    items: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.startswith("|") and rows:
            parts.append(f"<table>{''.join(rows)}</table>")
            rows = []
        if not line.startswith("* ") and items:
            parts.append(f"<ul>{''.join(items)}</ul>")
            items = []
        if line.startswith("|"):
            cells = [html.escape(cell.strip()) for cell in line.strip("|").split("|")]
            if not all(set(cell) <= set("-: ") for cell in cells):
                tag = "td" if rows else "th"
                rows.append("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>")
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            parts.append(f"<h{level}>{html.escape(line[level:].strip())}</h{level}>")
        elif line.startswith("* "):
            items.append(f"<li>{html.escape(line[2:].strip('* '))}</li>")
        elif line.strip():
            parts.append(f"<p>{html.escape(line)}</p>")
    return "".join(parts)
