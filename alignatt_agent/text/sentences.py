"""Find the ends of sentences; docs/languages.md lists the limits of each language."""

import math
import re
import unicodedata
from collections.abc import Sequence

from sentencex import get_sentence_boundaries

from alignatt_agent.text.marks import CLOSERS, OPENERS
from alignatt_agent.types import Word

_FINAL = re.compile(rf"[.?!。！？؟۔।॥][{re.escape(CLOSERS)}]*$")  # noqa: RUF001
_GREEK_QUESTION = re.compile(rf"[;\u037e][{re.escape(CLOSERS)}]*$")
# Unlisted abbreviations: `J.` (no Korean or Chinese syllable), `e.g.`, `f.eks.`, `J.-C.`, `EE. UU.`
_LETTER = r"[^\W\d_\u3040-\u9fff\uac00-\ud7a3]"
_PART = r"[^\s\d.]{1,3}"
_LACKING = r"(?i:approx|eds?|eqs?|figs|refs|resp|vol)\."
_ABBREVIATED = re.compile(rf"{_LETTER}\.|(?:{_PART}\.-?)+{_PART}\.|([A-HJ-WYZ])\1\.|{_LACKING}")
# Words without vowels: `Dr.`, `bd.`, `млн.` and Hindi `डॉ.`, but neither `Hmm.` nor Czech `vlk.`
_CONSONANTS = "b-df-hj-np-tv-xzбвгджзклмнпрстфхцчшщβγδζθκλμνξπρσςτφχψ\u0300-\u036f"  # noqa: RUF001
_NO_VOWEL = re.compile(rf"(?![hm]+\.)[{_CONSONANTS}]+\.|.*\u0949\.")
_SYLLABIC = re.compile("[a-zа-я][rlрл][^rlрл.]")  # noqa: RUF001
# Ordinals that may precede a capital letter: 19. Jahrhundert, Karel IV. Lucemburský.
_ORDINALS = dict.fromkeys(("de", "tr"), r"(?:\d{1,3}|[IVXLC]+)\.")
_ORDINALS |= dict.fromkeys(("cs", "hu", "pl"), r"[IVXLC]+\.")
_COUNTED = re.compile(r"\d|[IVXLC]{2,}\b")
# Languages that use other languages' lists; a language without a list uses the English one.
_LISTS = {"mk": ["bg"], "pt": ["pt", "es"], "sv": ["da"]}
_OPEN_SYLLABLES = re.compile(r"(?:[b-df-hj-np-tv-z]?[aeiou])+\.")  # Lists contain `me`, `fa`, `no`.


def ends_sentence(
    word: str, following: str | None, language: str = "en", previous: str = ""
) -> bool:
    """Return whether a sentence ends with ``word``; the neighboring words may be unknown.

    ``following`` is empty after a pause, and ``None`` if the next word is not yet known.
    """
    is_greek_question = language == "el" and _GREEK_QUESTION.search(word)
    if not (_FINAL.search(word) or is_greek_question):
        return False
    bare = word.rstrip(CLOSERS).lstrip(OPENERS)
    if bare == "." or not bare.endswith("."):
        return True
    # An ellipsis marks hesitation.
    if bare.endswith(".."):
        return False
    if re.fullmatch(_ORDINALS.get(language, "-"), bare):
        return False
    after = following
    if following:
        after = following.lstrip(OPENERS) or following
    # A number may continue as a decimal or a time.
    if bare[-2].isdigit():
        return after == "" or bool(after and after[0].isalpha() and not after[0].islower())
    # The pronoun, which is not an initial.
    if language == "en" and bare == "I.":
        return True
    # ``a.m.`` may end a sentence like ``etc.``, unlike other letters with periods.
    bare = re.sub(r"\b[ap]\.m\.$", "etc.", bare)
    if _ABBREVIATED.fullmatch(bare):
        return False
    # A unit after a number, as in ``5 km.``, may end a sentence.
    is_unit = previous[-1:].isdigit()
    if _vowelless(bare, language) and not is_unit:
        return False
    return after == "" or bare.isupper() or not _listed(bare, after or "X", language)


def _vowelless(word: str, language: str) -> bool:
    """Return whether a word has no vowel and (except in Vietnamese: ``TS.``) is not in capitals."""
    plain = word[0].lower() + word[1:]
    if language == "vi":
        plain = word.lower()
    # Accents are separate characters then, and ``_NO_VOWEL`` accepts them.
    plain = unicodedata.normalize("NFD", plain)
    return bool(_NO_VOWEL.fullmatch(plain)) and not _SYLLABIC.search(word)


def _listed(word: str, after: str, language: str) -> bool:
    """Return whether ``word`` is an abbreviation if ``after`` follows it."""
    if after[0].islower() or _COUNTED.match(after):
        if language != "en" and len(word) <= len("aprx.") and word[-2].islower():
            return True
        after = "X"
    # German ``ca.`` precedes nouns.
    if language != "de" and _OPEN_SYLLABLES.fullmatch(word):
        return False
    codes = list(_LISTS.get(language, [language]))
    # The English list contains titles that are used in every language.
    if word[0].isupper():
        codes.append("en")
    head = f"x {word} "
    for code in codes:
        boundaries = get_sentence_boundaries(code, head + after)
        boundary_ends = [boundary["end_index"] for boundary in boundaries]
        # No sentence ends after an abbreviation in the list.
        if len(head) not in boundary_ends:
            return True
    return False


def ends_after(
    words: Sequence[str], count: int, language: str = "en", following: str | None = None
) -> bool:
    """Return whether a sentence ends after ``count`` words; ``following`` comes after ``words``."""
    after = following
    if count < len(words):
        after = words[count]
    previous = ""
    if count > 1:
        previous = words[count - 2]
    return ends_sentence(words[count - 1], after, language, previous)


def last_sentence_end(words: Sequence[str], limit: int, language: str = "en") -> int:
    """Return the length of the prefix up to the last sentence end in ``words[:limit]``."""
    for count in range(limit, 0, -1):
        if ends_after(words, count, language):
            return count
    return 0


def split_sentences(
    words: Sequence[Word], following: str | None, language: str = "en", pause_s: float = math.inf
) -> tuple[list[tuple[Word, ...]], list[Word]]:
    """Split consecutive ``words`` into whole sentences and an unfinished rest.

    ``following`` is the next word; see ``ends_sentence``. A pause of ``pause_s`` between words also
    ends a sentence.
    """
    texts = [word.text for word in words]
    sentences: list[tuple[Word, ...]] = []
    begin = 0
    for end in range(1, len(words) + 1):
        pause = 0.0
        if end < len(words):
            pause = words[end].start - words[end - 1].end
        if pause >= pause_s or ends_after(texts, end, language, following):
            sentences.append(tuple(words[begin:end]))
            begin = end
    return sentences, list(words[begin:])
