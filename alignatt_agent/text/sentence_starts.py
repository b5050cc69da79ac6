"""Detect sentence starts in text that is appended unit by unit.

The next unit can determine whether a period ends a sentence, e.g. after ``3.``. No sentence begins
inside a word.
"""

from alignatt_agent.text.marks import is_punctuation
from alignatt_agent.text.sentences import ends_after
from alignatt_agent.text.unit_boundaries import boundary_between


def begins_sentence(before: str, text: str, code: str) -> bool:
    """Return whether ``text`` in the language ``code`` begins a sentence after ``before``."""
    # Whether a period ends a sentence may depend on the word before it, e.g. ``5 km.``.
    last_words = before.split()[-2:]
    first_word = text.split()[:1]
    if not last_words:
        return True
    # A closing mark belongs to the sentence before it.
    if not first_word or is_punctuation(text):
        return False
    touching = not text[0].isspace() and not boundary_between(last_words[-1], first_word[0])
    if touching:
        return False
    return ends_after(last_words + first_word, len(last_words), code)
