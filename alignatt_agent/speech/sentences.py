"""Where sentences end in a transcript or a translation.

``sentencex`` knows the abbreviations of a language, and which English words begin a sentence. Rules
stand for what it lacks, chosen so that a doubtful end is none: a pause or the next one closes the
sentence. Figures and limits per language: docs/languages.md.
"""

import math
import re
import unicodedata
from collections.abc import Sequence

from sentencex import get_sentence_boundaries

from alignatt_agent.types import Word

_CLOSERS = "\"'”’»›)]}」』》）】"  # noqa: RUF001
_OPENERS = "\"'“‘„«‹([{「『《（【¿¡"  # noqa: RUF001
_FINAL = re.compile(rf"[.?!。！？؟۔।॥][{re.escape(_CLOSERS)}]*$")  # noqa: RUF001
_GREEK_QUESTION = re.compile(rf"[;\u037e][{re.escape(_CLOSERS)}]*$")
_INITIALS = re.compile(
    r"[^\W\d_\u3040-\u9fff\uac00-\ud7a3]\.|(?:[^\s\d.]{1,3}\.-?)+[^\s\d.]{1,3}\."
)
"""``J.``, ``e.g.``, ``f.eks.``, ``J.-C.``; a syllable of Korean or Chinese is a word."""
_CONSONANTS = "b-df-hj-np-tv-xzбвгджзклмнпрстфхцчшщβγδζθκλμνξπρσςτφχψ\u0300-\u036f"  # noqa: RUF001
_NO_VOWEL = re.compile(rf"(?![hm]+\.)[{_CONSONANTS}]+\.|.*\u0949\.")
"""``Dr.``, ``bd.``, ``млн.``, ``डॉ.``, not ``Hmm.``; units behind a number may end a sentence."""
_SYLLABIC = {"cs": "[rl]", "mk": "[рл]"}
"""``vlk`` is a word."""
_NUMBER = re.compile(r"\d\.$")
_ROMAN, _ORDINAL = re.compile(r"[IVXLC]+\."), re.compile(r"(?:\d{1,3}|[IVXLC]+)\.")
_ORDINALS = {"cs": _ROMAN, "de": _ORDINAL, "hu": _ROMAN, "pl": _ROMAN, "tr": _ORDINAL}
"""Ordinals in front of a capital: ``19. Jahrhundert``, ``Karel IV. Lucemburský``."""
_COUNTED = re.compile(r"\d|[IVXLC]{2,}\b")
_LISTS = {"mk": ["bg"], "pt": ["pt", "es"], "sv": ["da"]}
"""Where another list serves than that of the language, or English, if there is none."""
_OPEN_SYLLABLES = re.compile(r"(?:[b-df-hj-np-tv-z]?[aeiou])+\.")
"""``no``, ``fa``, ``bene``: words, though lists have them, but for German ``ca.`` before a noun."""
_SHORT = len("aprx.")
"""Before a number or a lower-case letter, so short a word is an abbreviation, but in English."""
_NOT_LISTED = re.compile(r"(?:approx|eds?|eqs?|figs|refs|resp|vol)\.", re.IGNORECASE)


def ends_sentence(
    word: str, following: str | None, language: str = "en", previous: str = ""
) -> bool:
    """Whether a sentence ends with ``word``.

    Args:
        word: with its marks.
        following: the next word; empty: nothing is said for a while; ``None``: not known yet.
        language: code of the language of the text.
        previous: the word before, if it is known.
    """
    if language == "el" and _GREEK_QUESTION.search(word):
        return True
    if not _FINAL.search(word):
        return False
    bare = word.rstrip(_CLOSERS).lstrip(_OPENERS)
    if bare == "." or not bare.endswith("."):
        return True
    if bare.endswith(".."):
        return False  # An ellipsis marks hesitation.
    after = following and (following.lstrip(_OPENERS) or following)
    if language in _ORDINALS and _ORDINALS[language].fullmatch(bare):
        return False
    if _NUMBER.search(bare):  # It may go on as a decimal or a time.
        return after == "" or bool(after and after[0].isalpha() and not after[0].islower())
    if (language, bare) == ("en", "I."):
        return True
    bare = re.sub(r"\b[ap]\.m\.$", "etc.", bare)
    if _INITIALS.fullmatch(bare) or _NOT_LISTED.fullmatch(bare):
        return False
    if _vowelless(bare, language) and not previous[-1:].isdigit():
        return False
    return after == "" or bare.isupper() or not _listed(bare, after or "X", language)


def _vowelless(word: str, language: str) -> bool:
    """Whether a word has no vowel and, but in Vietnamese (``TS.``), is not in capitals."""
    plain = word.lower() if language == "vi" else word[0].lower() + word[1:]
    plain = unicodedata.normalize("NFD", plain)
    syllabic = language in _SYLLABIC and re.search(_SYLLABIC[language], plain)
    return bool(_NO_VOWEL.fullmatch(plain)) and not syllabic


def _listed(word: str, after: str, language: str) -> bool:
    """Whether ``word`` is an abbreviation in front of ``after``."""
    if after[0].islower() or _COUNTED.match(after):
        if language != "en" and len(word) <= _SHORT and word[-2:-1].islower():
            return True
        after = "X"
    if language != "de" and _OPEN_SYLLABLES.fullmatch(word):
        return False
    # English knows titles that are written everywhere.
    codes = _LISTS.get(language, [language]) + ["en"] * word[0].isupper()
    head = f"x {word} "
    found = [get_sentence_boundaries(code, head + after) for code in codes]
    return any(all(end["end_index"] != len(head) for end in ends) for ends in found)


def ends_after(
    words: Sequence[str], count: int, language: str = "en", following: str | None = None
) -> bool:
    """Whether a sentence ends with the first ``count`` words; ``following`` stands behind all."""
    after = words[count] if count < len(words) else following
    return ends_sentence(words[count - 1], after, language, words[count - 2] if count > 1 else "")


def last_sentence_end(words: Sequence[str], limit: int, language: str = "en") -> int:
    """Return the length of the prefix that ends the last sentence within ``words[:limit]``."""
    return next((k for k in range(limit, 0, -1) if ends_after(words, k, language)), 0)


def split_sentences(
    words: Sequence[Word],
    following: str | None,
    language: str = "en",
    pause_s: float = math.inf,
) -> tuple[list[tuple[Word, ...]], list[Word]]:
    """Split consecutive ``words`` into whole sentences and an unfinished rest.

    ``following`` is the next word, see ``ends_sentence``. A pause of ``pause_s`` between words ends
    a sentence, too.
    """
    sentences: list[tuple[Word, ...]] = []
    texts = [word.text for word in words]
    begin = 0
    for k in range(1, len(words) + 1):
        paused = k < len(words) and words[k].start - words[k - 1].end >= pause_s
        if paused or ends_after(texts, k, language, following):
            sentences.append(tuple(words[begin:k]))
            begin = k
    return sentences, list(words[begin:])
