"""Draw reproducible figures with matplotlib (extra ``plots``), and a report's plots as SVG."""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np

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


_HEARD, _CLOSED, _EMITTED = 3.0, 1.9, 1.1
"""Heights of the three lines of a timeline."""


class FigureError(AlignAttError, RuntimeError):
    """Figures cannot be drawn; the message names the missing package."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot`` with the style of the reports."""
    try:
        import matplotlib
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'alignatt_agent[plots]'") from None
    # Draw without a display, unless the caller has chosen another backend.
    matplotlib.use("Agg", force=False)
    from matplotlib import font_manager, pyplot

    installed = {font.name for font in font_manager.fontManager.ttflist}
    families = [name for name in FONTS if name in installed]
    pyplot.rcParams["font.family"] = families or ["sans-serif"]
    pyplot.rcParams.update(_STYLE)
    return pyplot


def tail_error_plot(errors: TailErrors) -> str:
    """Plot the error rate of the live tail against the distance to the end of the audio."""
    figure, axes = _figure(6, 3.2)
    low, high = errors.bands()
    middles_ms = [1000 * (start + end) / 2 for start, end in pairwise(errors.edges_s)]
    axes.fill_between(middles_ms, 100 * low, 100 * high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(middles_ms, 100 * errors.rates(), color=BLUE, marker="o", ms=3)
    hold_back_s = errors.hold_back_s()
    if hold_back_s is not None:
        hold_back_ms = 1000 * hold_back_s
        top = axes.get_ylim()[1]
        axes.axvline(hold_back_ms, color=VERMILION, ls="--", lw=1)
        axes.text(hold_back_ms, top, f" {hold_back_ms:.0f} ms", va="top")
    axes.set(xlabel="distance to the end of the audio, ms", ylabel="reference error, %")
    axes.set_ylim(bottom=0)
    return _svg(figure)


def latency_per_talk(results: Sequence[Result]) -> str:
    """Draw the computation-unaware and computation-aware LongYAAL of every talk."""
    figure, axes = _figure(8, 3.2)
    talks: dict[str, None] = {}  # an ordered set
    for result in results:
        talks.update(dict.fromkeys(result.measured["talks"]))
    width = 0.8 / len(results)
    for number, (result, color) in enumerate(zip(results, cycle(COLORS), strict=False)):
        places: list[float] = []
        aware_s: list[float] = []
        unaware_s: list[float] = []
        for place, talk in enumerate(talks):
            # A log of another system can lack a talk or its computation times.
            latencies = result.measured["talks"].get(talk, {})
            places.append(place + number * width)
            aware_s.append(latencies.get("longyaal_ca_ms", 0) / 1000)
            unaware_s.append(latencies.get("longyaal_cu_ms", 0) / 1000)
        # The computation-aware latency is the larger one, so its bar is drawn first.
        axes.bar(places, aware_s, width, color=color, alpha=0.35)
        axes.bar(places, unaware_s, width, color=color, label=_name(result))
    middles = [place + 0.4 - width / 2 for place in range(len(talks))]
    axes.set_xticks(middles, list(talks), rotation=30, ha="right")
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
        points: list[tuple[float, float, str]] = []
        for result in results:
            if result.target == target and result.scores.longyaal_cu_ms is not None:
                latency_s = result.scores.longyaal_cu_ms / 1000
                points.append((latency_s, result.scores.bleu, _short(result.config)))
        points.sort(key=lambda point: point[0])
        latencies_s = [point[0] for point in points]
        bleus = [point[1] for point in points]
        axes.plot(latencies_s, bleus, color=color, marker="o", label=target)
        if target in offline:
            axes.axhline(offline[target], color=color, ls="--", lw=0.8)
        for latency_s, bleu, label in points:
            axes.annotate(
                label,
                (latency_s, bleu),
                fontsize=6,
                xytext=(4, 4),
                textcoords="offset points",
            )
    for regime in REGIMES.values():
        end_s = regime.highest_ms / 1000
        bottom = axes.get_ylim()[0]
        axes.axvline(end_s, color="#999999", ls=":", lw=1)
        axes.text(end_s, bottom, f"{regime.name} ", ha="right", fontsize=7, color="#777")
    axes.set(xlabel="LongYAAL CU, s", ylabel="BLEU (dashed: off-line)" if offline else "BLEU")
    axes.legend(fontsize=7)
    return _svg(figure)


def stage_times(results: Sequence[Result]) -> str:
    """Draw the time that each stage takes per chunk."""
    figure, axes = _figure(7, 1.0 + 0.35 * len(results))
    names = [_name(result) for result in results]
    lefts = np.zeros(len(results))
    for stage, color in zip(STAGES, COLORS, strict=False):
        times_ms = [result.measured["stages"]["ms_per_chunk"][stage] for result in results]
        axes.barh(names, times_ms, left=lefts, color=color, label=stage)
        lefts = lefts + times_ms
    axes.set(xlabel="ms per chunk")
    axes.invert_yaxis()
    figure.legend(fontsize=7, ncols=len(STAGES), loc="outside upper center")
    return _svg(figure)


def timeline(records: Sequence[TalkStep], done: Mapping[float, float], seconds: float) -> str:
    """Draw the first ``seconds`` seconds of a talk: source words, commits and emissions.

    ``done`` maps the audio position of each chunk to its completion time.
    """
    figure, axes = _figure(12, 4.4)
    sentences = 0
    open_words: Sequence[Word] = ()
    for record in records:
        if record.audio_s > seconds:
            break
        axes.axvline(record.audio_s, color="#eeeeee", lw=0.6, zorder=0)
        open_words = record.heard.live.words
        for sentence in record.heard.sentences:
            sentences += 1
            # The next sentence begins before this one ends, so sentences alternate in height.
            level = _CLOSED + 0.4 * (sentences % 2)
            _draw_sentence(axes, sentence, record.audio_s, level)
        if record.units:
            done_s = done.get(round(record.audio_s, 4), record.audio_s)
            _draw_emission(axes, record.units, record.audio_s, done_s)
    _draw_words(axes, open_words)
    axes.set_yticks([_HEARD, _CLOSED, _EMITTED], ["heard", "sentence closed", "emitted"])
    axes.set(xlim=(0, seconds), ylim=(-0.2, 4.0), xlabel="seconds from the start of the speech")
    return _svg(figure)


def _draw_sentence(axes: Any, sentence: Sequence[Word], closed_s: float, level: float) -> None:
    """Draw a sentence from its first word to the chunk that closed it."""
    begin_s = sentence[0].start
    axes.plot([begin_s, closed_s], [level, level], color=ORANGE, lw=1)
    axes.plot([closed_s], [level], marker="|", ms=14, color=ORANGE)
    # At this font size, one second of the axis is about nine characters wide.
    longest = max(int(9 * (closed_s - begin_s)), 12)
    text = _clip(" ".join(word.text for word in sentence), longest)
    axes.text(begin_s, level + 0.08, text, fontsize=6.5, color="#8a5a00")
    _draw_words(axes, sentence)


def _draw_emission(axes: Any, units: Sequence[str], heard_s: float, done_s: float) -> None:
    """Draw emitted units, with a bar from the end of the chunk's audio to its completion."""
    axes.plot([heard_s, done_s], [_EMITTED, _EMITTED], color=VERMILION, lw=3)
    axes.plot([done_s], [_EMITTED], marker="|", ms=14, color=VERMILION)
    axes.text(
        done_s,
        _EMITTED - 0.15,
        _clip("".join(units), 34),
        fontsize=6.5,
        rotation=-40,
        va="top",
        color="#8a3a00",
    )


def _draw_words(axes: Any, words: Sequence[Word]) -> None:
    for number, word in enumerate(words):
        color = SKY if number % 2 else BLUE
        middle_s = (word.start + word.end) / 2
        axes.plot(
            [word.start, word.end],
            [_HEARD, _HEARD],
            color=color,
            lw=5,
            solid_capstyle="butt",
        )
        axes.text(middle_s, _HEARD + 0.12, word.text, fontsize=6.5, rotation=70)


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
    svg = text[text.index("<svg") :]  # without the XML declaration
    # One page contains several figures, so equal group names would clash.
    return re.sub(r'<g id="[^"]*"', "<g", svg)


def _name(result: Result) -> str:
    return f"{_short(result.config)} {result.target}"


def _short(config: str) -> str:
    return config.rpartition("/")[2].removesuffix(".yaml")


def _clip(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"
