r"""Draw the runs of several sweeps in one figure, with a row for BLEU and one for chrF.

Lines join the points of a policy in one sweep. Vertical bars are 95 % intervals.

Examples:
  compare policies of real models with both lengths of chunks:
    python -m lab.curves.figure lab/results/real-claims.json lab/results/real-policies-500.json \
        --output lab/results/real-policies.png

exit status: 0 success; 2 nothing was drawn
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.plots import pyplot
from lab import commands
from lab.curves.grid import curve_names
from lab.curves.pareto import LATENCIES, QUALITIES
from lab.curves.plots import style

_LINES = ("-", ":", "--")
"""Styles of the sweeps' lines, in the order of rising chunk length."""

Sweep = Mapping[str, Any]
"""The content of a ``curves.json``."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.curves.figure", __doc__)
    add = parser.add_argument
    add("sweeps", nargs="+", type=Path, metavar="FILE", help="curves.json files of sweeps")
    add("--output", required=True, type=Path, metavar="FILE", help="figure to write (.png or .svg)")
    return parser


def draw(sweeps: Sequence[Sweep], output: Path) -> None:
    """Draw all runs of all sweeps; the figure has a column per target."""
    plt = pyplot()
    targets = list(sweeps[0]["targets"])
    figure, rows = plt.subplots(
        len(QUALITIES),
        len(targets),
        figsize=(1.2 + 4.6 * len(targets), 8.6),
        sharex=True,
        squeeze=False,
    )
    by_chunk = sorted(sweeps, key=lambda sweep: int(sweep["signature"]["chunk_ms"]))
    for row, (quality, name) in zip(rows, QUALITIES.items(), strict=True):
        row[0].set_ylabel(name)
        for axes, target in zip(row, targets, strict=True):
            for sweep, line in zip(by_chunk, cycle(_LINES), strict=False):
                _sweep(axes, sweep, target, quality, line)
            axes.grid(alpha=0.25)
    for axes, target in zip(rows[0], targets, strict=True):
        axes.set_title(f"English to {language(target).name}")
    for axes in rows[-1]:
        axes.set_xlabel(f"{LATENCIES['cu_ms']}, s")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    # Without a date, the same figure is the same file.
    metadata = {"Date": None} if output.suffix == ".svg" else None
    figure.savefig(output, metadata=metadata)
    plt.close(figure)


def _sweep(axes: Any, sweep: Sweep, target: str, quality: str, line: str) -> None:
    """Draw the curves of one sweep."""
    chunk_ms = sweep["signature"]["chunk_ms"]
    order = curve_names()
    runs = sorted(sweep["targets"][target]["runs"], key=lambda run: order.index(run["curve"]))
    for curve, group in groupby(runs, itemgetter("curve")):
        points = sorted(group, key=lambda run: float(run["cu_ms"]["value"]))
        color, marker = style(curve)
        values = [point[quality]["value"] for point in points]
        below = [value - point[quality]["low"] for value, point in zip(values, points, strict=True)]
        above = [
            point[quality]["high"] - value for value, point in zip(values, points, strict=True)
        ]
        axes.errorbar(
            [point["cu_ms"]["value"] / 1000 for point in points],
            values,
            yerr=[below, above],
            color=color,
            marker=marker,
            linestyle=line,
            markersize=5,
            lw=1.6,
            elinewidth=0.5,
            label=f"{curve}, {chunk_ms} ms",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    sweeps: list[Sweep] = []
    for path in arguments.sweeps:
        content = json.loads(path.read_text(encoding="utf-8"))
        if "targets" not in content:
            raise ConfigError(f"{path} is not the curves.json of a sweep: it has no targets")
        sweeps.append(content)
    draw(sweeps, arguments.output)
    print(f"figure: {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.curves.figure", main))
