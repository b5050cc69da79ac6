"""Detect sentence starts in text that is appended unit by unit.

The next unit can determine whether a period ends a sentence, e.g. after ``3.``. No sentence begins
inside a word.
"""

from alignatt_agent.speech.sentences import ends_after
from alignatt_agent.translation.units import is_punctuation, part


def begins_sentence(before: str, text: str, code: str) -> bool:
    """Return whether ``text`` in the language ``code`` begins a sentence after ``before``."""
    last, first = before.split()[-2:], text.split()[:1]
    if not last or not first:
        return not last
    touching = not text[0].isspace() and not part(last[-1], first[0])
    return not (touching or is_punctuation(text)) and ends_after(last + first, len(last), code)
