"""matplotlib (extra ``plots``), set up for files that are the same every time."""

from __future__ import annotations

from typing import Any

from alignatt_agent.types import AlignAttError

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW, GREY = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442", "#555555",
)  # fmt: skip
"""The colours of Okabe and Ito, which stay apart for colour-blind readers, and a grey."""

_FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "SimHei"]
"""matplotlib falls back along this list for glyphs that the first one lacks."""

CJK_FONTS = _FONTS[1:]


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
    pyplot.rcParams["svg.hashsalt"] = "alignatt"
    pyplot.rcParams["svg.fonttype"] = "none"  # text stays text: a browser finds its own fonts
    return pyplot
