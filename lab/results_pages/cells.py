"""Format the cells of the tables of results, by the templates of ``pages.yaml``."""

from string import Formatter
from typing import Any

MISSING = "-"
"""Text of a cell without a value."""


class Cells(Formatter):
    """Formats rows by the templates of ``pages.yaml``, which describes them."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """Return a value, or ``None`` where the row has none."""
        try:
            return super().get_field(field_name, args, kwargs)
        except KeyError:
            return None, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value, a list of values, or a figure with its interval."""
        form, _, scale_and_unit = format_spec.partition("*")
        scale, _, unit = scale_and_unit.partition(" ")
        text = _text(value, form, float(scale or 1))
        # A word in a column of figures, such as "off-line", has no unit.
        if not unit or text == MISSING or isinstance(value, str):
            return text
        return f"{text} {unit}"


def _text(value: Any, form: str, scale: float) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _list_text(value, form, scale)
    if isinstance(value, dict):
        return _interval_text(value, form, scale)
    # The scale 1 leaves an integer an integer.
    if scale != 1:
        value = value * scale
    return format(value, form)


def _list_text(values: list[Any], form: str, scale: float) -> str:
    texts = [_text(value, form, scale) for value in values]
    if values.count(None) == len(values):
        return MISSING
    return " / ".join(texts)


def _interval_text(figure: dict[str, Any], form: str, scale: float) -> str:
    value = _text(figure["value"], form, scale)
    low = _text(figure["low"], form, scale)
    high = _text(figure["high"], form, scale)
    if low == MISSING:
        return value
    return f"{value} [{low}, {high}]"
