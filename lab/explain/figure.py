"""The figure of one draft, as PNG and SVG (matplotlib, extra ``plots``)."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.evaluation.plots import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
    VERMILION,
    YELLOW,
    FigureError,
    pyplot,
)
from lab.explain.reconstruction import PROVENANCE, Reconstruction
from lab.figures import save

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
    texts = [_shown(text) for text in found.tokens]
    lengths = [len(text) + 1.6 for text in texts]
    total = max(sum(lengths), 70.0)
    at = 0.0
    passed, emitted = found.gated.decision.accepted, found.gated.emitted
    for place, (text, wide) in enumerate(zip(texts, lengths, strict=True)):
        color, _ = looks[place < passed, place < emitted]
        box = plt.Rectangle((at + 0.15, 0), wide - 0.3, 1, fc=color, alpha=0.45, ec=color, lw=1)
        axes.add_patch(box)
        axes.text(at + wide / 2, 0.5, text, ha="center", va="center", fontsize=8.5)
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
    accepted, reason = found.gated.accepted, found.gated.decision.reason
    before = f"after “{accepted}”" if accepted else "at the beginning"
    title = f"draft {before}; the scan ended with: {reason}"
    axes.set_title(title, fontsize=9, loc="left", pad=2)


def _draw_rows(figure: Any, axes: Any, found: Reconstruction) -> None:
    """Draw the attention of each word over source words, with peaks and the frontier."""
    shares = np.stack([100 * word.attention for word in found.words])
    image = axes.imshow(shares, cmap="Blues", vmin=0, aspect="auto")
    for at, word in enumerate(found.words):
        if word.peak is not None:
            axes.plot(word.peak, at, "x", color=VERMILION, ms=8, mew=2)
    axes.axvline(found.accessible - 0.5, color="black", lw=1.6, ls="--")
    if found.gated.edge != found.accessible:
        axes.axvline(found.gated.edge - 0.5, color=VERMILION, lw=1.6, ls=":")
    axes.set_xticks(range(len(found.source)), found.source, rotation=45, ha="right", fontsize=8.5)
    axes.set_yticks(range(len(found.words)), [word.text for word in found.words], fontsize=9)
    for label, word in zip(axes.get_yticklabels(), found.words, strict=True):
        label.set_color("black" if word.emitted else VERMILION)
    for label in axes.get_xticklabels()[found.accessible :]:
        label.set_color("#B36B00")
    axes.set_title(
        f"attention of the mean of {found.heads} heads, %\n"
        "x: peak that the gate reads   dashed: end of the accessible source"
        + ("" if found.gated.edge == found.accessible else "   dotted: with the margin"),
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
