"""Remove a recognizer's descriptions of sounds that are not speech.

Whisper and Gemma write ``[BLANK_AUDIO]``, ``(applause)``, ``*coughs*`` and music notes. They also
write brackets and asterisks that a speaker means: ``f(x)``, ``list[0]``, ``2*3*4``. A description
is therefore removed only if it is a known one that touches no word, or if the whole answer is in
brackets. ``sounds.yaml`` lists the known descriptions.
"""

from pathlib import Path

import regex
import yaml

_BRACKETS = r"()\[\]（）［］【】"  # noqa: RUF001
_INSIDE = rf"[^{_BRACKETS}*]*+"
_IN_BRACKETS = rf"[(（]{_INSIDE}[)）]|[\[［]{_INSIDE}[\]］]|【{_INSIDE}】"  # noqa: RUF001
_IN_ASTERISKS = rf"\*(?!\s){_INSIDE}(?<!\s)\*"
_UNSPACED = r"[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}]"
_TOUCHING = rf"[[\p{{L}}\p{{M}}\p{{N}}_\-'’/=+@#$%&\\^~<>|*]--{_UNSPACED}]"  # noqa: RUF001
"""Letters and digits, and marks that join what stands on both sides of them."""

_DESCRIPTION = regex.compile(
    rf"(?<!{_TOUCHING})(?:{_IN_BRACKETS}|{_IN_ASTERISKS})(?!{_TOUCHING})", regex.V1
)
_UNSPACED_LETTER = regex.compile(rf"[{_UNSPACED}&&\p{{L}}]", regex.V1)
_NOTE = "♩-♬🎵🎶🎼"
_NOTES = regex.compile(rf"[{_NOTE}]+")
_NESTED = (
    rf"(?P<nested>[(（](?:[^{_BRACKETS}]|(?&nested))*+[)）]"  # noqa: RUF001
    rf"|[\[［](?:[^{_BRACKETS}]|(?&nested))*+[\]］]|【(?:[^{_BRACKETS}]|(?&nested))*+】)"  # noqa: RUF001
)
_NO_WORDS = rf"(?:[\s{_NOTE}]|[\p{{P}}--[{_BRACKETS}]])*+"
_WHOLE_ANSWER = regex.compile(rf"{_NO_WORDS}(?:{_NESTED}{_NO_WORDS})++", regex.V1)
_MARKS = regex.compile(r"[\W_]+")


def _read_table() -> tuple[frozenset[str], frozenset[str]]:
    """Return the known descriptions, and the words that may accompany one."""
    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    sounds: set[str] = set()
    for listed in table["sounds"].values():
        for description in listed.split(","):
            sounds.add(description.strip())
    companions: set[str] = set()
    for word in table["with"].split(","):
        companions.add(word.strip())
    return frozenset(sounds), frozenset(companions)


_SOUNDS, _COMPANIONS = _read_table()


def without_sounds(text: str) -> str:
    """Return a transcript without descriptions of other sounds; an empty one if it is only those.

    Music notes are always removed. The words of the speaker are never changed.
    """
    if _WHOLE_ANSWER.fullmatch(text):
        return ""

    def replaced(match: regex.Match[str]) -> str:
        description = str(match[0])
        before = text[: match.start()][-1:]
        after = text[match.end() :][:1]
        # Without spaces between words, a description touches a word on one side. Marks such as
        # ``。`` are no words, although they belong to the same scripts.
        is_inside = _UNSPACED_LETTER.fullmatch(before) and _UNSPACED_LETTER.fullmatch(after)
        if _is_sound(description) and not is_inside:
            return ""
        return description

    spoken = str(_DESCRIPTION.sub(replaced, text))
    return str(_NOTES.sub("", spoken)).strip()


def _is_sound(description: str) -> bool:
    """Return whether a text in brackets or asterisks describes a known sound, or is music notes."""
    text = _MARKS.sub(" ", description.casefold()).strip()
    if text in _SOUNDS:
        return True
    if not text:
        return _NOTES.search(description) is not None
    words = text.split()
    # Companions such as ``loud`` describe a sound only together with its name.
    names = [word for word in words if word not in _COMPANIONS]
    return bool(names) and _SOUNDS.issuperset(names)
