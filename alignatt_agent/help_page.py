"""The help of a command is the docstring of its module: what it does, then how, by examples."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from inspect import cleandoc
from typing import Any


def page(docstring: str | None) -> dict[str, Any]:
    """Return arguments of a parser; the first paragraph stands in front of its options."""
    summary, _, rest = cleandoc(docstring or "").partition("\n\n")
    return {
        "description": summary,
        "epilog": rest,
        "formatter_class": RawDescriptionHelpFormatter,
    }
