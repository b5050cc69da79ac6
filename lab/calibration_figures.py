r"""Figures of a calibration and of one draft, as PNG and SVG (matplotlib, extra ``plots``).

Examples:
  calibrate, and draw the score of every head, and the score against the number of heads:
    python -m lab.calibration_figures run --config micro-low --target de --pairs micro:60:77

  one draft: the request, its tokens, where each word attends to:
    python -m lab.calibration_figures explain "We have trained the large model that our" \
        --config micro-low --target de --accessible 7 --prefix "Wir haben" --figure outputs/draft

The options are those of `alignatt calibrate`, which explains them.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.calibration.cli import calibrated, explain_options, explained, run_options
from alignatt_agent.calibration.explain import PROVENANCE, Reconstruction
from alignatt_agent.calibration.head_scores import RowScores
from alignatt_agent.calibration.translation_score import Head, Row
from alignatt_agent.evaluation.plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    YELLOW,
    FigureError,
    pyplot,
    save,
)
from lab.commands import parser

_PALE = "#B8B8B8"
_SOURCE_COLORS = (BLUE, ORANGE, _PALE, SKY)
_PARTS = {
    "system prompt": _PALE,
    "accessible source": BLUE,
    "inaccessible source": ORANGE,
    "instruction": _PALE,
    "accepted translation": GREEN,
    "draft": SKY,
}


def figures_beside(
    output: Path, title: str, rows: dict[Row, RowScores], row: Row, top_k: int
) -> list[Path]:
    """Draw ``heat_map`` and ``score_by_k`` beside the head-set file ``output``."""
    found, stem = rows[row], output.with_suffix("")
    heads = stem.with_name(f"{stem.name}-heads")
    drawn = heat_map(found.matrix, found.ranking[:top_k], f"{title}, {row} row", heads)
    return drawn + score_by_k(rows, top_k, title, stem.with_name(f"{stem.name}-top-k"), row)


def heat_map(
    matrix: npt.NDArray[np.float64], retained: Sequence[Head], title: str, stem: Path
) -> list[Path]:
    """Draw Translation Scores ``[layers, heads]`` with the ``retained`` heads marked by rank."""
    plt = pyplot()
    layers, heads = matrix.shape
    # Legend and color bar have to fit next to very small models, too.
    size = (max(6.4, 0.26 * layers + 2.4), max(3.2, 0.26 * heads + 1.5))
    figure, axes = plt.subplots(figsize=size)
    image = axes.imshow(
        100 * matrix.T, cmap="cividis", vmin=0, vmax=100, aspect="auto", origin="lower"
    )
    for place, (layer, head) in enumerate(retained, 1):
        axes.add_patch(
            plt.Rectangle((layer - 0.5, head - 0.5), 1, 1, fill=False, ec=VERMILION, lw=2.2)
        )
        color = "black" if matrix[layer, head] > 0.5 else "white"
        axes.text(layer, head, str(place), ha="center", va="center", color=color, fontsize=8)
    every = max(1, layers // 16)
    axes.set_xticks(range(0, layers, every))
    axes.set_yticks(range(heads))
    axes.set(xlabel="layer", ylabel="head")
    axes.set_title(f"{title}\noutlined: the {len(retained)} retained heads, by rank", fontsize=10)
    figure.colorbar(image, ax=axes, label="Translation Score, %")
    return save(plt, figure, stem)


def score_by_k(
    rows: dict[Row, RowScores], top_k: int, title: str, stem: Path, chosen: Row | None = None
) -> list[Path]:
    """Draw the held-out score of the mean of 1, 2, ... heads, ``chosen`` in full strength."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    total = len(rows["predicting"].ranking)
    highest = max(found.by_k[top_k - 1].value for found in rows.values())
    for (name, found), color in zip(rows.items(), (BLUE, ORANGE), strict=False):
        values, low, high = 100 * np.asarray([(x.value, x.low, x.high) for x in found.by_k]).T
        best = values[top_k - 1]
        k = np.arange(1, total + 1)
        strong = chosen in (None, name)
        label = f"{name} row" + (" (chosen)" if chosen == name else "")
        axes.plot(k, values, color=color, lw=2 if strong else 1.2, label=label)
        axes.fill_between(k, low, high, color=color, alpha=0.18, lw=0)
        axes.plot(top_k, best, "o", color=color, ms=7)
        axes.annotate(
            f"{best:.1f}",
            (top_k, best),
            (0, 9 if best >= 100 * highest else -16),
            textcoords="offset points",
            ha="center",
            color=color,
            fontsize=9,
        )
    axes.axvline(top_k, color=GREY, lw=1, ls=":")
    axes.set_xscale("log", base=2)
    ticks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128, 256) if k <= total * 0.7] + [total]
    axes.set_xticks(ticks, [str(k) for k in ticks[:-1]] + [f"all {total}"])
    axes.minorticks_off()
    axes.set(xlabel="heads averaged, best first", ylabel="Translation Score, %, held out")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower left", fontsize=9)
    axes.set_title(f"{title}\nbands: 95 % bootstrap over sentence pairs", fontsize=10)
    return save(plt, figure, stem)


def draw_reconstruction(found: Reconstruction, title: str, stem: Path) -> list[Path]:
    """Draw one draft: prompt partition, tokens, word-level rows and four-way provenance."""
    if not found.words:
        raise FigureError("nothing was drafted, so there is nothing to draw")
    plt = pyplot()
    count, width = len(found.words), len(found.source)
    size = (max(9.6, 0.52 * width + 5.2), 3.5 + 0.33 * count)
    figure = plt.figure(figsize=size)
    grid = figure.add_gridspec(
        3, 2, height_ratios=[0.6, 0.8, 0.36 * count + 0.6], width_ratios=[1.6, 1]
    )
    _draw_partition(figure.add_subplot(grid[0, :]), found)
    _draw_tokens(plt, figure.add_subplot(grid[1, :]), found)
    rows = figure.add_subplot(grid[2, 0])
    _draw_rows(figure, rows, found)
    _draw_provenance(figure.add_subplot(grid[2, 1], sharey=rows), found)
    figure.suptitle(title, fontsize=11)
    return save(plt, figure, stem)


def _draw_partition(axes: Any, found: Reconstruction) -> None:
    """Draw the request; widths are square roots of token counts, so that short parts show."""
    parts = [(name, tokens) for name, tokens in found.partition if tokens]
    at = 0.0
    for name, tokens in parts:
        wide = max(tokens**0.5, 0.105 * sum(n**0.5 for _, n in parts))
        axes.barh(0, wide, left=at, color=_PARTS[name], ec="white", lw=1.5, height=0.9)
        label = textwrap.fill(f"{name}, {tokens} tokens", 14)
        ink = "white" if _PARTS[name] in (BLUE, GREEN) else "black"
        axes.text(at + wide / 2, 0, label, ha="center", va="center", fontsize=7.5, color=ink)
        at += wide
    axes.set_xlim(0, at)
    axes.axis("off")
    axes.set_title("request of Eq. 1 (widths not to scale)", fontsize=9, loc="left", pad=2)


def _draw_tokens(plt: Any, axes: Any, found: Reconstruction) -> None:
    """Draw the tokens: emitted, accepted but inside an unfinished unit, or rejected."""
    looks = {
        (True, True): (GREEN, "accepted and emitted"),
        (True, False): (YELLOW, "accepted, unit unfinished: dropped"),
        (False, False): (VERMILION, "rejected, or after the first rejected"),
    }
    lengths = [max(len(_shown(token.text)), 1) * 1.0 + 1.6 for token in found.tokens]
    total = max(sum(lengths), 70.0)
    at = 0.0
    for token, wide in zip(found.tokens, lengths, strict=True):
        color = looks[token.accepted, token.emitted][0]
        box = plt.Rectangle((at + 0.15, 0), wide - 0.3, 1, fc=color, alpha=0.45, ec=color, lw=1)
        axes.add_patch(box)
        axes.text(at + wide / 2, 0.5, _shown(token.text), ha="center", va="center", fontsize=8.5)
        at += wide
    axes.set(xlim=(0, total), ylim=(-1.1, 1.1))
    axes.axis("off")
    handles = [
        plt.Rectangle((0, 0), 1, 1, fc=color, alpha=0.45, ec=color, label=label)
        for color, label in looks.values()
    ]
    axes.legend(
        handles=handles, ncols=3, fontsize=8, loc="lower left",
        bbox_to_anchor=(0, -0.12), borderpad=0, handlelength=1.2,
    )  # fmt: skip
    before = f"after “{found.accepted_text}”" if found.accepted_text else "at the beginning"
    axes.set_title(
        f"draft {before}; the scan ended with: {found.reason}", fontsize=9, loc="left", pad=2
    )


def _draw_rows(figure: Any, axes: Any, found: Reconstruction) -> None:
    """Draw the attention of each word over source words, with peaks and the frontier."""
    shares = np.stack([100 * word.attention for word in found.words])
    image = axes.imshow(shares, cmap="Blues", vmin=0, aspect="auto")
    for at, word in enumerate(found.words):
        if word.peak is not None:
            axes.plot(word.peak, at, "x", color=VERMILION, ms=8, mew=2)
    axes.axvline(found.accessible - 0.5, color="black", lw=1.6, ls="--")
    if found.limit != found.accessible:
        axes.axvline(found.limit - 0.5, color=VERMILION, lw=1.6, ls=":")
    axes.set_xticks(range(len(found.source)), found.source, rotation=45, ha="right", fontsize=8.5)
    axes.set_yticks(range(len(found.words)), [word.text for word in found.words], fontsize=9)
    for label, word in zip(axes.get_yticklabels(), found.words, strict=True):
        label.set_color("black" if word.emitted else VERMILION)
    for label in axes.get_xticklabels()[found.accessible :]:
        label.set_color("#B36B00")
    axes.set_title(
        f"attention of the mean of {found.heads} heads, %\n"
        "x: peak that the gate reads   dashed: end of the accessible source"
        + ("" if found.limit == found.accessible else "   dotted: with the margin"),
        fontsize=9,
        loc="left",
    )
    figure.colorbar(image, ax=axes, pad=0.01, fraction=0.035)


def _draw_provenance(axes: Any, found: Reconstruction) -> None:
    """Draw the shares of each word's attention as stacked bars."""
    left = np.zeros(len(found.words))
    for part, (name, color) in enumerate(zip(PROVENANCE, _SOURCE_COLORS, strict=True)):
        shares = 100 * np.asarray([word.provenance[part] for word in found.words])
        bars = axes.barh(range(len(left)), shares, left=left, color=color, height=0.72, label=name)
        texts = [f"{share:.0f}" if share >= 9 else "" for share in shares]
        ink = "white" if color == BLUE else "black"
        axes.bar_label(bars, texts, label_type="center", fontsize=7.5, color=ink)
        left += shares
    axes.set(xlim=(0, 100), xlabel="attention, %")
    axes.tick_params(axis="y", labelleft=False)
    axes.set_title("provenance of each drafted word", fontsize=9, loc="left")
    axes.legend(ncols=2, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def _shown(text: str) -> str:
    """Return the text of a token with its leading space made visible."""
    return ("␣" + text[1:] if text.startswith(" ") else text) or "·"


def _run(arguments: argparse.Namespace) -> int:
    if (found := calibrated(arguments)) is None:
        return 2
    plan, done = found
    title, row = f"{plan.name}, {plan.direction}", done.content["row"]
    drawn = figures_beside(plan.output, title, done.outcome.rows, row, plan.top_k)
    print("\n".join(f"figure    {path}" for path in drawn))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    found = explained(arguments)
    title = f"{arguments.config}, {arguments.target}"
    drawn = draw_reconstruction(found, title, arguments.figure)
    print(found, *(f"figure  {path}" for path in drawn), sep="\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    commands = (both := parser("lab.calibration_figures", __doc__)).add_subparsers(required=True)
    run_options(run := commands.add_parser("run"))
    explain_options(one := commands.add_parser("explain"))
    one.add_argument("--figure", type=Path, required=True, metavar="STEM", help="of the two files")
    run.set_defaults(command=_run)
    one.set_defaults(command=_explain)
    arguments = both.parse_args(argv)
    pyplot()  # refuses now, not at the end of a long run
    return int(arguments.command(arguments))


if __name__ == "__main__":
    sys.exit(main())
