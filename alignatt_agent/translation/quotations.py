"""Find translations that quote a source without quotation marks.

Small models put the beginning of an unfinished sentence in quotation marks. They then often copy it
or comment on it instead of translating it (``"Enter the name that" in German is``). A draft without
the first mark is a translation (docs/evidence.md, Real models).
"""

from collections.abc import Callable, Sequence

from alignatt_agent.text.marks import QUOTATION_MARKS
from alignatt_agent.translation.units import BROKEN

ATTEMPTS = 3
"""Maximum number of marks that are excluded, one after the other."""


def has_quotation_mark(text: str) -> bool:
    """Return whether ``text`` contains a mark that encloses quotations."""
    return any(mark in text for mark in QUOTATION_MARKS)


def opening_mark(token_ids: Sequence[int], text: Callable[[Sequence[int]], str]) -> int | None:
    """Return the id with which a draft opens a quotation at its beginning, or ``None``.

    ``text`` decodes ids.
    """
    for count in range(1, len(token_ids) + 1):
        # Several ids may encode one mark.
        beginning = text(token_ids[:count]).rstrip(BROKEN).lstrip()
        if beginning:
            if beginning[0] in QUOTATION_MARKS:
                return token_ids[count - 1]
            return None
    return None
