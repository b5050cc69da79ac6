"""matplotlib (extra ``plots``), set up for files that are the same every time."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from alignatt_agent.types import AlignAttError

LOGGER = logging.getLogger(__name__)

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW, GREY = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442", "#555555",
)  # fmt: skip
"""The colours of Okabe and Ito, which stay apart for colour-blind readers, and a grey."""

_FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "SimHei"]
"""matplotlib falls back along this list for glyphs that the first one lacks."""

_STYLE = {
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.hashsalt": "alignatt",
    "svg.fonttype": "none",  # text stays text: a browser finds its own fonts
}


class FigureError(AlignAttError, RuntimeError):
    """Figures cannot be drawn; the message says what is missing."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``.

    Raises:
        FigureError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'alignatt_agent[plots]'") from None
    matplotlib.use("Agg", force=False)
    from matplotlib import font_manager, pyplot

    known = {font.name for font in font_manager.fontManager.ttflist}
    pyplot.rcParams["font.family"] = [name for name in _FONTS if name in known] or ["sans-serif"]
    pyplot.rcParams.update(_STYLE)
    return pyplot


def save(plt: Any, figure: Any, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG and close it; return the files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for path in paths:
            # Without a date, equal figures are equal files.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata)
    plt.close(figure)
    if any("missing from font" in str(warning.message) for warning in caught):
        LOGGER.warning(
            "%s has boxes in place of some characters: no installed font has them (one of %s "
            "would do); the SVG shows them wherever it is opened with such a font",
            *(paths[0], ", ".join(_FONTS[1:])),
        )
    return paths
