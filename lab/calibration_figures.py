"""Figures of a calibration, drawn beside its head set (matplotlib, extra ``plots``).

The score of every head, and the score against the number of heads. The options are those of
`alignatt calibrate run`, which explains them.

Example:
  python -m lab.calibration_figures --config micro-low --target de --pairs micro:60:77
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignatt_agent.calibration.cli import calibrated, run_options
from alignatt_agent.calibration.head_scores import RowScores
from alignatt_agent.calibration.row_reader import Head
from alignatt_agent.evaluation.plots import BLUE, GREY, ORANGE, VERMILION, pyplot
from alignatt_agent.types.engines import Row
from lab.commands import parser
from lab.figures import save


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
    rows: dict[Row, RowScores], top_k: int, title: str, stem: Path, chosen: Row
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
        strong = name == chosen
        label = f"{name} row (chosen)" if strong else f"{name} row"
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    run_options(options := parser("lab.calibration_figures", __doc__))
    arguments = options.parse_args(argv)
    pyplot()  # refuses now, not at the end of a long run
    if (calibration := calibrated(arguments)) is None:
        return 2
    plan, done = calibration
    title, rows, row = f"{plan.name}, {plan.direction}", done.outcome.rows, done.content["row"]
    heads, by_k = (plan.output.with_name(f"{plan.output.stem}-{end}") for end in ("heads", "top-k"))
    found = rows[row]
    drawn = heat_map(found.matrix, found.ranking[: plan.top_k], f"{title}, {row} row", heads)
    drawn += score_by_k(rows, plan.top_k, title, by_k, row)
    print("\n".join(f"figure    {path}" for path in drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
