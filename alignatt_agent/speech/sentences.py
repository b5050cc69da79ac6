"""Find the ends of sentences; docs/languages.md lists the limits of each language."""

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from sentencex import get_sentence_boundaries

from alignatt_agent.types import Word

_CLOSERS = "\"'”’»›)]}」』》）】"  # noqa: RUF001
_OPENERS = "\"'“‘„«‹([{「『《（【¿¡"  # noqa: RUF001
_FINAL = re.compile(rf"[.?!。！？؟۔।॥][{re.escape(_CLOSERS)}]*$")  # noqa: RUF001
_GREEK_QUESTION = re.compile(rf"[;\u037e][{re.escape(_CLOSERS)}]*$")
# Unlisted abbreviations: `J.` (no Korean or Chinese syllable), `e.g.`, `f.eks.`, `J.-C.`, `EE. UU.`
_LETTER, _PART = r"[^\W\d_\u3040-\u9fff\uac00-\ud7a3]", r"[^\s\d.]{1,3}"
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
    if not (_FINAL.search(word) or (language == "el" and _GREEK_QUESTION.search(word))):
        return False
    bare = word.rstrip(_CLOSERS).lstrip(_OPENERS)
    if bare == "." or not bare.endswith("."):
        return True
    if bare.endswith("..") or re.fullmatch(_ORDINALS.get(language, "-"), bare):
        return False  # An ellipsis marks hesitation.
    after = following and (following.lstrip(_OPENERS) or following)
    if bare[-2].isdigit():  # A number may continue as a decimal or a time.
        return after == "" or bool(after and after[0].isalpha() and not after[0].islower())
    if (language, bare) == ("en", "I."):
        return True
    bare = re.sub(r"\b[ap]\.m\.$", "etc.", bare)
    unit = previous[-1:].isdigit()
    if _ABBREVIATED.fullmatch(bare) or (_vowelless(bare, language) and not unit):
        return False
    return after == "" or bare.isupper() or not _listed(bare, after or "X", language)


def _vowelless(word: str, language: str) -> bool:
    """Return whether a word has no vowel and (except in Vietnamese: ``TS.``) is not in capitals."""
    plain = word.lower() if language == "vi" else word[0].lower() + word[1:]
    plain = unicodedata.normalize("NFD", plain)
    return bool(_NO_VOWEL.fullmatch(plain)) and not _SYLLABIC.search(word)


def _listed(word: str, after: str, language: str) -> bool:
    """Return whether ``word`` is an abbreviation if ``after`` follows it."""
    if after[0].islower() or _COUNTED.match(after):
        if language != "en" and len(word) <= len("aprx.") and word[-2].islower():
            return True
        after = "X"
    if language != "de" and _OPEN_SYLLABLES.fullmatch(word):  # German ``ca.`` precedes nouns.
        return False
    # The English list contains titles that are used in every language.
    codes, head = _LISTS.get(language, [language]) + ["en"] * word[0].isupper(), f"x {word} "
    found = [get_sentence_boundaries(code, head + after) for code in codes]
    return any(all(end["end_index"] != len(head) for end in ends) for ends in found)


def ends_after(
    words: Sequence[str], count: int, language: str = "en", following: str | None = None
) -> bool:
    """Return whether a sentence ends after ``count`` words; ``following`` comes after ``words``."""
    after = words[count] if count < len(words) else following
    return ends_sentence(words[count - 1], after, language, words[count - 2] if count > 1 else "")


def last_sentence_end(words: Sequence[str], limit: int, language: str = "en") -> int:
    """Return the length of the prefix up to the last sentence end in ``words[:limit]``."""
    return next((k for k in range(limit, 0, -1) if ends_after(words, k, language)), 0)


def split_sentences(
    words: Sequence[Word], following: str | None, language: str = "en", pause_s: float = math.inf
) -> tuple[list[tuple[Word, ...]], list[Word]]:
    """Split consecutive ``words`` into whole sentences and an unfinished rest.

    ``following`` is the next word; see ``ends_sentence``. A pause of ``pause_s`` between words also
    ends a sentence.
    """
    texts, ends = [word.text for word in words], [0]
    for k in range(1, len(words) + 1):
        paused = k < len(words) and words[k].start - words[k - 1].end >= pause_s
        if paused or ends_after(texts, k, language, following):
            ends.append(k)
    return [tuple(words[begin:end]) for begin, end in pairwise(ends)], list(words[ends[-1] :])
