"""What the command-line parsers share: help from docstrings, and options that were renamed."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
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


def refuse_renamed(parser: ArgumentParser, names: dict[str, str]) -> None:
    """Refuse old spellings of options with the new one, e.g. ``{"--to": "--target"}``."""
    for old, new in names.items():
        parser.add_argument(old, action=_Renamed, nargs="*", const=new, help=SUPPRESS)


class _Renamed(Action):
    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option: str | None = None
    ) -> None:
        parser.error(f"{option} is now {self.const}")
