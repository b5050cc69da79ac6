"""Read names and terms of a talk from ``speech.context``, some with fixed translations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.head_sets import ANY
from alignatt_agent.config.languages import LANGUAGES
from alignatt_agent.text.running_text import split_words

INFLECTION = 3
"""Minimum length of a word that may be inflected, and maximum length of its ending (letters)."""

_CODES = {item.code for item in LANGUAGES}
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2063\ud800-\udfff]")
"""Control characters, bytes that are not UTF-8, and U+2063, with which prompts mark places."""
_FOR_TARGET = re.compile(r"\s*([\w-]{2,})\s*:\s*(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class Term:
    """A name or term of the talk.

    Attributes:
        text: the term in the spoken language.
        translations: translations by target code; ``ANY`` is the key for all targets.
    """

    text: str
    translations: Mapping[str, str]

    def translation(self, target: str) -> str | None:
        """Return the translation for a target code, or ``None`` if there is none."""
        return self.translations.get(target, self.translations.get(ANY))

    def occurs(self, words: Sequence[str]) -> bool:
        """Return whether the words of a sentence contain the term or an inflected form of it."""
        ours = split_words(self.text)
        starts = range(len(words) - len(ours) + 1)
        return any(all(map(_same, ours, words[start:])) for start in starts)


def read_terms(context: str) -> tuple[Term, ...]:
    r"""Parse names and terms, one per line.

    ``\=`` and ``\|`` are signs of a term or a translation, and ``\\`` is a backslash.

    Raises:
        ConfigError: a translation is missing, or only some translations of a line specify a target.
    """
    return tuple(_parse(line.strip()) for line in context.split("\n") if line.strip())


def spoken_terms(context: str) -> str:
    """Return the names and terms for a recognizer: one per line, without their translations."""
    return "\n".join(term.text for term in read_terms(context))


def term_line(text: str, translations: Mapping[str, str]) -> str:
    """Return the line that ``read_terms`` parses to a term with ``translations`` by target code.

    White space, including line breaks, becomes one space.
    """
    line = _escaped(text)
    if translations:
        parts = [f"{code}: {_escaped(item)}" for code, item in translations.items()]
        line += f" = {' | '.join(parts)}"
    return line


def _escaped(text: str) -> str:
    return re.sub(r"[\\|]|(?<!\S)=(?!\S)", r"\\\g<0>", " ".join(text.split()))


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\\|=])", r"\1", text.strip())


def _split_translations(text: str) -> list[str]:
    """Split at vertical bars that are not escaped."""
    parts = [""]
    for piece in re.findall(r"\\[\\|=]|.", text):
        if piece == "|":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _parse(line: str) -> Term:
    if sign := _NO_TEXT.search(line):
        raise ConfigError(
            f"speech.context: {line[:60]!r} contains U+{ord(sign[0]):04X}, which is no text: "
            "remove it, or convert the text to UTF-8"
        )
    text, equals, given = re.sub(r"(^|\s)=(?=\s|$)", "\0", line, count=1).partition("\0")
    if not equals:
        return Term(_unescaped(line), {})
    found = [_FOR_TARGET.fullmatch(part) for part in _split_translations(given)]
    named = {match[1]: _unescaped(match[2]) for match in found if match and match[1] in _CODES}
    if text.strip() and given.strip() and not named and len(found) == 1:
        return Term(_unescaped(text), {ANY: _unescaped(given)})
    if not text.strip() or len(named) < len(found):
        raise ConfigError(
            f"speech.context: {line!r}: expected TERM, TERM = TRANSLATION, or TERM = de: "
            "TRANSLATION | it: TRANSLATION with the codes of different targets; write \\= and \\| "
            "for signs that belong to a term or a translation"
        )
    return Term(_unescaped(text), named)


@lru_cache(maxsize=1 << 16)  # called for every term and source word of a prompt
def _same(ours: str, heard: str) -> bool:
    ours, heard = (re.sub(r"^\W+|\W+$", "", word) or word for word in (ours, heard))
    begin, word = ours.casefold(), heard.casefold()
    # "Mark" must not match "market": an inflected name keeps its capital letter.
    small = ours[0].isupper() and not heard[0].isupper()
    longer = 0 < len(word) - len(begin) <= INFLECTION <= len(begin)
    return begin == word or (longer and not small and word.startswith(begin))
