"""Marks that end a clause, and marks that may enclose it."""

CLAUSE_ENDS = ".,;:!?…。，、；：！？؟؛،।॥"  # noqa: RUF001
"""Marks that end a clause."""
CLOSERS = "\"'“”’»›)]}」』》）】"  # noqa: RUF001
"""Marks that may follow the end of a clause. ``“`` closes a quotation in German and Czech."""
OPENERS = "\"'“‘„«‹([{「『《（【¿¡"  # noqa: RUF001
"""Marks that may precede the first word of a clause. ``“`` opens a quotation in English."""
QUOTATION_MARKS = '"“”„«»「」『』'
"""Marks that enclose a quotation and do not mean anything else, as apostrophes do."""


def ends_clause(text: str) -> bool:
    """Return whether ``text`` ends with a clause, ignoring the marks that close a quotation."""
    return text.rstrip(CLOSERS).endswith(tuple(CLAUSE_ENDS))


def is_punctuation(text: str) -> bool:
    """Return whether ``text`` consists only of marks that end a clause or close a quotation."""
    visible = text.strip()
    if not visible:
        return False
    return all(char in CLAUSE_ENDS + CLOSERS for char in visible)
