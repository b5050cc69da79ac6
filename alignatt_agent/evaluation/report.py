"""The tables of a run: on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alignatt_agent.evaluation.regime import Place, place
from alignatt_agent.evaluation.results import Ceiling
from alignatt_agent.evaluation.score import Scores


@dataclass(frozen=True, slots=True)
class Result:
    """One scored target of one configuration.

    Attributes:
        config: name of the configuration.
        target: code of the language of the output.
        scores: official scores.
        measured: what else was measured, as in ``scores.json``.
        signature: what the scores depend on.
    """

    config: str
    target: str
    scores: Scores
    measured: Mapping[str, Any]
    signature: Mapping[str, Any]

    @property
    def regime(self) -> Place:
        """Latency regime of the shared task."""
        return place(self.scores.longyaal_cu_ms)


RTF_LIMIT = 0.9
"""Real-time factor without room for the chunks that take longer than others."""

OFFLINE, CEILING = "off-line", "quality ceiling"

_Column = tuple[str, Callable[[Result], float | None], str]

_TERMINAL: tuple[_Column, ...] = (
    ("BLEU", lambda r: r.scores.bleu, ".2f"),
    ("chrF", lambda r: r.scores.chrf, ".2f"),
    ("COMET", lambda r: r.measured.get("comet", {}).get("score"), ".4f"),
    ("CU ms", lambda r: r.scores.longyaal_cu_ms, ".0f"),
    ("CA ms", lambda r: r.scores.longyaal_ca_ms, ".0f"),
    ("paced", lambda r: r.measured.get("paced", {}).get("longyaal_ms"), ".0f"),
    ("SLAAL", lambda r: r.measured.get("stream_laal_cu_ms"), ".0f"),
    ("WER %", lambda r: r.measured.get("transcript", {}).get("wer"), ".2f"),
    ("RTF", lambda r: r.scores.rtf, ".3f"),
)
_OFFLINE: dict[str, Callable[[Ceiling], float | None]] = {
    "BLEU": lambda c: c.bleu,
    "chrF": lambda c: c.chrf,
    "COMET": lambda c: c.comet,
    "WER %": lambda c: c.wer,
}
_PACED = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "longest_silence_s", "backlog_s")


def table(results: Sequence[Result], ceilings: Sequence[Ceiling] = ()) -> str:
    """Format the scores of all runs for a terminal, with one line of signature.

    Columns that no run has are left out.

    Args:
        results: scored runs.
        ceilings: off-line rows to show below them.
    """
    columns = [column for column in _TERMINAL if any(column[1](r) is not None for r in results)]
    several = len({result.config for result in results}) > 1
    labels = [_label(result, several) for result in results]
    labels += [f"{OFFLINE} {ceiling.target}" for ceiling in ceilings]
    width = max(8, *(len(label) + 2 for label in labels))
    head = f"{'target':<{width}}" + "".join(f"{name:>9}" for name, _, _ in columns) + "  regime"
    lines = [head, "-" * (len(head) + 14)]
    lines += [
        f"{_label(result, several):<{width}}"
        + "".join(f"{_number(value(result), form):>9}" for _, value, form in columns)
        + f"  {result.regime}"
        for result in results
    ]
    lines += [
        f"{f'{OFFLINE} {ceiling.target}':<{width}}"
        + "".join(f"{_number(_offline(ceiling, name), form):>9}" for name, _, form in columns)
        + f"  {CEILING}"
        for ceiling in ceilings
    ]
    lines += ["", _legend([name for name, _, _ in columns])]
    return "\n".join([*lines, *too_slow(results), *_facts(results)])


def too_slow(results: Sequence[Result]) -> list[str]:
    """Warn of runs that a live stream would leave behind, a line each.

    LongYAAL does not show it: not even its computation-aware form counts a backlog.
    """
    return [
        f"{result.config} {result.target}: too slow for a live stream, whose lag would grow "
        f"(RTF {result.scores.rtf:.2f}); take a longer chunk_ms than "
        f"{result.signature.get('chunk_ms', 'now')}"
        for result in results
        if (result.scores.rtf or 0.0) >= RTF_LIMIT
    ]


def markdown(
    results: Sequence[Result],
    commands: Sequence[str],
    notes: Sequence[str],
    ceilings: Sequence[Ceiling] = (),
) -> str:
    """Format the report of a call.

    Args:
        results: scored runs.
        commands: official commands that do the same.
        notes: what was changed in the data.
        ceilings: off-line rows to show below the runs.
    """
    columns = [column for column in _TERMINAL if any(column[1](r) is not None for r in results)]
    names = [name for name, _, _ in columns]
    parts = ["# Evaluation", "", _row(["configuration", "target", *names, "regime"])]
    parts.append(_rule(2, len(columns), 1))
    for result in results:
        cells = [_number(value(result), form) for _, value, form in columns]
        parts.append(_row([result.config, result.target, *cells, str(result.regime)]))
    for ceiling in ceilings:
        cells = [_number(_offline(ceiling, name), form) for name, _, form in columns]
        parts.append(_row([OFFLINE, ceiling.target, *cells, CEILING]))
    parts += [
        "",
        _legend(names),
        "",
        *(f"{line}\n" for line in too_slow(results)),
        *_paced_section(results),
        *_inside_section(results),
    ]
    if notes:
        parts += ["## Data", "", *(f"* {note}" for note in notes), ""]
    parts += ["## Signature", "", *(f"* {line}" for line in _facts(results)), ""]
    parts += ["## The same with the official commands", "", "```sh", *commands, "```", ""]
    return "\n".join(parts)


def _paced_section(results: Sequence[Result]) -> list[str]:
    rows = [(result, result.measured["paced"]) for result in results if "paced" in result.measured]
    if not rows:
        return []
    head = ["configuration", "target", "clock", "mean", "p50", "p95", "p99"]
    lines = ["## Lag by the clock", ""]
    lines.append(_row([*head, "longest silence", "backlog", "growth per minute"]))
    lines.append(_rule(3, 7))
    for result, paced in rows:
        mean, p50, p95, p99, silence, backlog = (paced[name] for name in _PACED)
        times = [f"{value:.0f} ms" for value in (mean, p50, p95, p99)]
        growth = f"{paced['growth_ms_per_min']:+.0f} ms"
        cells = [*times, f"{silence:.1f} s", f"{backlog:.2f} s", growth]
        lines.append(_row([result.config, result.target, paced["clock"], *cells]))
    return [*lines, ""]


def _inside_section(results: Sequence[Result]) -> list[str]:
    rows = [result for result in results if "stages" in result.measured]
    if not rows:
        return []
    stages = list(rows[0].measured["stages"]["ms_per_chunk"])
    lines = ["## Time per chunk and decoding", ""]
    head = ["configuration", "target", *(f"{stage}, ms" for stage in stages)]
    lines += [_row([*head, "steps per emitted token", "stops"]), _rule(2, len(stages) + 1, 1)]
    for result in rows:
        decoding = result.measured["decoding"]
        times = [f"{v:.1f}" for v in result.measured["stages"]["ms_per_chunk"].values()]
        stops = ", ".join(f"{name} {count}" for name, count in decoding["stops"].items())
        ratio = _number(decoding["steps_per_accepted"], ".2f")
        lines.append(_row([result.config, result.target, *times, ratio, stops]))
    return [*lines, ""]


def _facts(results: Sequence[Result]) -> list[str]:
    lines: list[str] = []
    for result in results:
        signature = result.signature
        versions = signature["versions"]
        facts = [
            f"config:{signature['config']}",
            f"sha256:{signature.get('config_sha256', '-')}",
            *(
                f"{name}:{versions[name]}"
                for name in ("alignatt_agent", "simulstream", "omnisteval", "vllm", "torch")
            ),
            str(signature["device"]),
        ]
        lines.append(" | ".join(facts))
        if "label" in signature:
            lines.append(f"** {signature['label']} **")
    return list(dict.fromkeys(lines))


def _legend(names: Sequence[str]) -> str:
    texts = ["CU, CA: LongYAAL, computation-unaware and -aware (OmniSTEval, longform)"]
    if "paced" in names:
        texts.append("paced: LongYAAL by the clock, backlog included")
    if "SLAAL" in names:
        texts.append("SLAAL: StreamLAAL, computation-unaware, ms")
    if "WER %" in names:
        texts.append("WER: streamed transcript")
    return "; ".join(texts)


def _label(result: Result, several: bool) -> str:
    return f"{result.config} {result.target}" if several else result.target


def _offline(ceiling: Ceiling, column: str) -> float | None:
    value = _OFFLINE.get(column)
    return value(ceiling) if value else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(left: int, right: int, last: int = 0) -> str:
    return _row(["---"] * left + ["---:"] * right + ["---"] * last)
