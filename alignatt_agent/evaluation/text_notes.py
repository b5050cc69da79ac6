"""Note characters in references and output that readers do not see, but that scorers compare."""

import unicodedata
from collections.abc import Sequence

import regex

_SPELLING = r"\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Invisible characters of spelling: joiners of e.g. Persian and Hindi, and variants of emoji."""

_INVISIBLE = regex.compile(
    rf"[[\p{{Cc}}\p{{Default_Ignorable_Code_Point}}\ufff9-\ufffb]--[\s\x1c-\x1f{_SPELLING}]]",
    regex.V1,
)
"""Characters that are neither visible nor white space, at which the scorers split."""

_ENCODINGS = ("iso-8859-1", "cp1252", "cp1250", "cp1251", "cp1253")
"""Encodings of European languages. The first two differ in e.g. quotation marks."""


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
    """Return whether the bytes of ``text`` in another encoding are other text in UTF-8."""
    for encoding in _ENCODINGS:
        try:
            return text.encode(encoding).decode("utf-8") != text
        except UnicodeError:  # the text was not read in this encoding
            continue
    return False
