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

_CODES = {language.code for language in LANGUAGES}
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2063\ud800-\udfff]")
"""Control characters, bytes that are not UTF-8, and U+2063, with which prompts mark places. U+0080
to U+009F are Windows' quotation marks and dashes, if text is converted from another encoding."""
_FOR_TARGET = re.compile(r"\s*([\w-]{2,})\s*:\s*(\S.*?)\s*")
"""A translation for one target: its code, a colon and the text."""
_EQUALS = re.compile(r"(^|\s)=(?=\s|$)")
"""The sign between a term and its translations. It stands alone: ``E=mc²`` is a term."""


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
        term = split_words(self.text)
        for start in range(len(words) - len(term) + 1):
            if all(map(_same, term, words[start:])):
                return True
        return False


def read_terms(context: str) -> tuple[Term, ...]:
    r"""Parse names and terms, one per line.

    ``\=`` and ``\|`` are signs of a term or a translation, and ``\\`` is a backslash.

    Raises:
        ConfigError: a translation is missing, or only some translations of a line specify a target.
    """
    terms: list[Term] = []
    for line in context.split("\n"):
        text = line.strip()
        if text:
            terms.append(_parse(text))
    return tuple(terms)


def spoken_terms(context: str) -> str:
    """Return the names and terms for a recognizer: one per line, without their translations."""
    return "\n".join(term.text for term in read_terms(context))


def term_line(text: str, translations: Mapping[str, str]) -> str:
    """Return the line that ``read_terms`` parses to a term with ``translations`` by target code.

    White space, including line breaks, becomes one space.
    """
    line = _escaped(text)
    if not translations:
        return line
    parts: list[str] = []
    for code, translation in translations.items():
        parts.append(f"{code}: {_escaped(translation)}")
    return f"{line} = {' | '.join(parts)}"


def _escaped(text: str) -> str:
    """Put a backslash before the signs that would end a term or a translation."""
    on_one_line = " ".join(text.split())
    return re.sub(r"[\\|]|(?<!\S)=(?!\S)", r"\\\g<0>", on_one_line)


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
    """Parse a line that is not blank; see ``read_terms`` for the errors."""
    if sign := _NO_TEXT.search(line):
        raise ConfigError(
            f"speech.context: {line[:60]!r} contains U+{ord(sign[0]):04X}, which is no text: "
            "remove it, or convert the text to UTF-8"
        )
    equals = _EQUALS.search(line)
    if equals is None:
        return Term(_unescaped(line), {})
    text = line[: equals.start()].strip()
    right_side = line[equals.end() :].strip()
    parts = _split_translations(right_side)
    by_code: dict[str, str] = {}
    for part in parts:
        match = _FOR_TARGET.fullmatch(part)
        # "10: zehn" is a translation with a colon, because no language has the code 10.
        if match and match[1] in _CODES:
            by_code[match[1]] = _unescaped(match[2])
    if text and right_side and not by_code and len(parts) == 1:
        return Term(_unescaped(text), {ANY: _unescaped(right_side)})
    # There are fewer codes than parts if a part has no code, or if two parts have the same one.
    if not text or len(by_code) < len(parts):
        raise ConfigError(
            f"speech.context: {line!r}: expected TERM, TERM = TRANSLATION, or TERM = de: "
            "TRANSLATION | it: TRANSLATION with the codes of different targets; write \\= and \\| "
            "for signs that belong to a term or a translation"
        )
    return Term(_unescaped(text), by_code)


@lru_cache(maxsize=1 << 16)  # called for every term and source word of a prompt
def _same(term_word: str, source_word: str) -> bool:
    """Return whether a source word is a word of a term, perhaps with an ending."""
    term_word, source_word = _bare(term_word), _bare(source_word)
    stem, word = term_word.casefold(), source_word.casefold()
    if stem == word:
        return True
    # "Mark" must not match "market": an inflected name keeps its capital letter.
    if term_word[0].isupper() and not source_word[0].isupper():
        return False
    # Short stems, such as "AI", begin too many other words.
    if len(stem) < INFLECTION:
        return False
    return word.startswith(stem) and len(word) - len(stem) <= INFLECTION


def _bare(word: str) -> str:
    """Remove the punctuation around a word, unless the word has nothing else."""
    return re.sub(r"^\W+|\W+$", "", word) or word
