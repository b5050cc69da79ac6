"""Figures as files."""

import logging
import warnings
from pathlib import Path
from typing import Any

from alignatt_agent.evaluation.plots import FONTS

LOGGER = logging.getLogger(__name__)


def save(plt: Any, figure: Any, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, close it, and return the files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for path in paths:
            # No date: equal figures must be equal files.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata)
    plt.close(figure)
    if any("missing from font" in str(warning.message) for warning in caught):
        LOGGER.warning(
            "%s has boxes in place of some characters: no installed font has them; install one "
            "of %s, or open the SVG where such a font is installed",
            *(paths[0], ", ".join(FONTS[1:])),
        )
    return paths
