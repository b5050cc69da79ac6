"""Note characters in references and output that readers do not see, but that scorers compare."""

import re
import unicodedata
from collections.abc import Sequence

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufff9-\ufffb]"
)
"""Invisible characters. U+200C and U+200D are spelling in e.g. Persian and Hindi."""


def text_notes(texts: Sequence[str], noun: str) -> list[str]:
    """Return a note with the number of ``texts`` for each kind of doubtful character.

    ``noun`` names the texts in messages, e.g. ``"line"``. Scorers use the texts unchanged.
    """
    # Numbers of the texts with each kind of character, from 1.
    decomposed: list[int] = []
    invisible: list[int] = []
    misread: list[int] = []
    replaced: list[int] = []
    codes: set[str] = set()
    for number, text in enumerate(texts, 1):
        if not unicodedata.is_normalized("NFC", text):
            decomposed.append(number)
        invisible_chars = _INVISIBLE.findall(text)
        if invisible_chars:
            invisible.append(number)
            codes.update(f"U+{ord(char):04X}" for char in invisible_chars)
        if _is_misread(text):
            misread.append(number)
        if "\ufffd" in text:
            replaced.append(number)
    notes: list[str] = []
    if decomposed:
        notes.append(
            f"{len(decomposed)} {noun}(s) not in Unicode form NFC (first: {noun} {decomposed[0]}); "
            f"the scorers take decomposed and composed characters for different ones"
        )
    if invisible:
        notes.append(
            f"{len(invisible)} {noun}(s) with invisible characters (first: {noun} {invisible[0]}; "
            f"{', '.join(sorted(codes))}), which the scorers compare"
        )
    if misread:
        beginning = texts[misread[0] - 1][:40]
        notes.append(
            f"{len(misread)} {noun}(s) that look like UTF-8 read in another encoding (first: "
            f"{noun} {misread[0]}, {beginning!r})"
        )
    if replaced:
        notes.append(
            f"{len(replaced)} {noun}(s) with U+FFFD, which replaces characters that could not be "
            f"decoded (first: {noun} {replaced[0]})"
        )
    return notes


def _is_misread(text: str) -> bool:
    """Return whether the bytes of ``text`` in a Western encoding are other text in UTF-8."""
    # The two encodings differ in the 32 characters from 0x80 to 0x9F, e.g. in quotation marks.
    for encoding in ("iso-8859-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8") != text
        except UnicodeError:  # the text was not read in this encoding
            continue
    return False
