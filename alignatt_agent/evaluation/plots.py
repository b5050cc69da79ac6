"""Draw reproducible figures with matplotlib (extra ``plots``), and a report's plots as SVG."""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.score import Result
from alignatt_agent.evaluation.trace import TalkStep
from alignatt_agent.evaluation.wer import TailErrors
from alignatt_agent.types import AlignAttError, Word
from alignatt_agent.types.stopwatch import STAGES

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW, GREY = COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442", "#555555",
)  # fmt: skip
"""The colors of Okabe and Ito, which color-blind readers can distinguish, and a gray."""

FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "SimHei"]
"""Fallback fonts, in order, for glyphs that a font lacks."""

_STYLE = {
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.hashsalt": "alignatt",
    "svg.fonttype": "none",  # keep text as text; a browser has its own fonts
}


class FigureError(AlignAttError, RuntimeError):
    """Figures cannot be drawn; the message names the missing package."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot`` with the style of the reports."""
    try:
        import matplotlib
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'alignatt_agent[plots]'") from None
    matplotlib.use("Agg", force=False)
    from matplotlib import font_manager, pyplot

    known = {font.name for font in font_manager.fontManager.ttflist}
    pyplot.rcParams["font.family"] = [name for name in FONTS if name in known] or ["sans-serif"]
    pyplot.rcParams.update(_STYLE)
    return pyplot


def tail_error_plot(errors: TailErrors) -> str:
    """Plot the error rate of the live tail against the distance to the end of the audio."""
    figure, axes = _figure(6, 3.2)
    low, high = errors.bands()
    middles = [1000 * (a + b) / 2 for a, b in zip(errors.edges_s, errors.edges_s[1:], strict=False)]
    axes.fill_between(middles, 100 * low, 100 * high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(middles, 100 * errors.rates(), color=BLUE, marker="o", ms=3)
    found = errors.hold_back_s()
    if found is not None:
        axes.axvline(1000 * found, color=VERMILION, ls="--", lw=1)
        axes.text(1000 * found, axes.get_ylim()[1], f" {1000 * found:.0f} ms", va="top")
    axes.set(xlabel="distance to the end of the audio, ms", ylabel="reference error, %")
    axes.set_ylim(bottom=0)
    return _svg(figure)


def latency_per_talk(results: Sequence[Result]) -> str:
    """Draw the computation-unaware and computation-aware LongYAAL of every talk."""
    figure, axes = _figure(8, 3.2)
    talks = list(dict.fromkeys(talk for result in results for talk in result.measured["talks"]))
    width = 0.8 / len(results)
    for number, (result, color) in enumerate(zip(results, cycle(COLORS), strict=False)):
        places = [k + number * width for k in range(len(talks))]
        found = [result.measured["talks"].get(talk, {}) for talk in talks]
        aware = [item.get("longyaal_ca_ms", 0) / 1000 for item in found]
        unaware = [item.get("longyaal_cu_ms", 0) / 1000 for item in found]
        axes.bar(places, aware, width, color=color, alpha=0.35)
        axes.bar(places, unaware, width, color=color, label=_name(result))
    axes.set_xticks(
        [k + 0.4 - width / 2 for k in range(len(talks))], talks, rotation=30, ha="right"
    )
    axes.set(ylabel="LongYAAL, s (pale: CA)")
    figure.legend(fontsize=7, loc="outside right upper")
    return _svg(figure)


def quality_against_latency(
    results: Sequence[Result], ceilings: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Draw BLEU against LongYAAL CU, with the regimes of the shared task and off-line scores."""
    figure, axes = _figure(6, 3.6)
    offline = {row["signature"]["target"]: row["bleu"] for row in ceilings}
    targets = dict.fromkeys(result.target for result in results)
    for target, color in zip(targets, cycle(COLORS), strict=False):
        points = []
        for result in results:
            if result.target == target and result.scores.longyaal_cu_ms is not None:
                latency_s = result.scores.longyaal_cu_ms / 1000
                points.append((latency_s, result.scores.bleu, _short(result.config)))
        points.sort(key=lambda point: point[0])
        x = [point[0] for point in points]
        y = [point[1] for point in points]
        axes.plot(x, y, color=color, marker="o", label=target)
        if target in offline:
            axes.axhline(offline[target], color=color, ls="--", lw=0.8)
        for a, b, label in points:
            axes.annotate(label, (a, b), fontsize=6, xytext=(4, 4), textcoords="offset points")
    for regime in REGIMES.values():
        end, low = regime.highest_ms / 1000, axes.get_ylim()[0]
        axes.axvline(end, color="#999999", ls=":", lw=1)
        axes.text(end, low, f"{regime.name} ", ha="right", fontsize=7, color="#777")
    axes.set(xlabel="LongYAAL CU, s", ylabel="BLEU (dashed: off-line)" if offline else "BLEU")
    axes.legend(fontsize=7)
    return _svg(figure)


def stage_times(results: Sequence[Result]) -> str:
    """Draw the time that each stage takes per chunk."""
    figure, axes = _figure(7, 1.0 + 0.35 * len(results))
    names = [_name(result) for result in results]
    left = [0.0] * len(results)
    for stage, color in zip(STAGES, COLORS, strict=False):
        times = [result.measured["stages"]["ms_per_chunk"][stage] for result in results]
        axes.barh(names, times, left=left, color=color, label=stage)
        left = [a + b for a, b in zip(left, times, strict=True)]
    axes.set(xlabel="ms per chunk")
    axes.invert_yaxis()
    figure.legend(fontsize=7, ncols=len(STAGES), loc="outside upper center")
    return _svg(figure)


def timeline(records: Sequence[TalkStep], done: Mapping[float, float], seconds: float) -> str:
    """Draw the first ``seconds`` seconds of a talk: source words, commits and emissions.

    ``done`` maps the audio position of each chunk to its completion time.
    """
    figure, axes = _figure(12, 4.4)
    heard, closed, emitted = 3.0, 1.9, 1.1
    count = 0
    still_open: Sequence[Word] = ()
    for record in records:
        if record.audio_s > seconds:
            break
        axes.axvline(record.audio_s, color="#eeeeee", lw=0.6, zorder=0)
        still_open = record.heard.live.words
        for sentence in record.heard.sentences:
            begin = sentence[0].start
            count += 1
            level = closed + 0.4 * (count % 2)  # the next sentence begins before this one ends
            axes.plot([begin, record.audio_s], [level] * 2, color=ORANGE, lw=1)
            axes.plot([record.audio_s], [level], marker="|", ms=14, color=ORANGE)
            room = int(9 * (record.audio_s - begin))
            text = _clip(" ".join(word.text for word in sentence), max(room, 12))
            axes.text(begin, level + 0.08, text, fontsize=6.5, color="#8a5a00")
            _draw_words(axes, sentence, heard)
        if record.units:
            when = done.get(round(record.audio_s, 4), record.audio_s)
            axes.plot([record.audio_s, when], [emitted] * 2, color=VERMILION, lw=3)
            axes.plot([when], [emitted], marker="|", ms=14, color=VERMILION)
            text = _clip("".join(record.units), 34)
            axes.text(
                when, emitted - 0.15, text, fontsize=6.5, rotation=-40, va="top", color="#8a3a00"
            )
    _draw_words(axes, still_open, heard)
    axes.set_yticks([heard, closed, emitted], ["heard", "sentence closed", "emitted"])
    axes.set(xlim=(0, seconds), ylim=(-0.2, 4.0), xlabel="seconds from the start of the speech")
    return _svg(figure)


def _draw_words(axes: Any, words: Sequence[Word], level: float) -> None:
    for place, word in enumerate(words):
        color = SKY if place % 2 else BLUE
        axes.plot([word.start, word.end], [level] * 2, color=color, lw=5, solid_capstyle="butt")
        axes.text((word.start + word.end) / 2, level + 0.12, word.text, fontsize=6.5, rotation=70)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    plt = pyplot()
    plt.rcParams["font.size"] = 8
    figure = plt.Figure(figsize=(width, height))
    return figure, figure.subplots()


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that the fonts lack; browsers have them
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    # One page contains several figures, so equal group names would clash.
    return re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])


def _name(result: Result) -> str:
    return f"{_short(result.config)} {result.target}"


def _short(config: str) -> str:
    return config.rpartition("/")[2].removesuffix(".yaml")


def _clip(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
