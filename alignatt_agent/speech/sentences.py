"""Where sentences end in a transcript."""

import math
import re
from collections.abc import Sequence

from alignatt_agent.types import Word

_CLOSERS = "\"'”’»›)]}」』》）】"  # noqa: RUF001
_OPENERS = "\"'“‘„«‹([{「『《（【"  # noqa: RUF001
_FINAL = re.compile(rf"[.?!。？！؟۔।॥][{re.escape(_CLOSERS)}]*$")  # noqa: RUF001
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+$")
"""Initials and dotted abbreviations: ``J.``, ``e.g.``, ``U.S.``."""
_TITLE = re.compile(
    r"(?:Capt|Co|Col|Corp|Dr|Gen|Gov|Inc|Jr|Lt|Ltd|Maj|Messrs|Mrs?|Ms|Mt|Ph\.D|Prof|Rep|Rev|Sen"
    r"|Sgt|Sr|St)\.$"
)
"""Only as written here: ``MT.`` and ``850 ms.`` may end a sentence."""
_ABBREVIATION = re.compile(
    r"(?:al|approx|cf|dept|eds?|eqs?|esp|figs?|pp|refs?|resp|vol|vs)\.$", re.IGNORECASE
)
_NEEDS_CAPITAL = re.compile(r"(?:\d+|\b[ap]\.m|\betc)\.$")
"""A number may continue as a decimal, an ordinal or a time, unless a capital follows."""


def ends_sentence(word: str, following: str | None, language: str = "en") -> bool:
    """Whether a sentence ends with ``word``; ``following`` is the next word, if it is known.

    Args:
        word: with its marks.
        following: the next word; ``None``: not known yet.
        language: code of the language of the text.
    """
    if not _FINAL.search(word):
        return False
    bare = word.rstrip(_CLOSERS).lstrip(_OPENERS)
    if not bare.endswith("."):
        return True
    if bare.endswith(".."):
        return False  # An ellipsis marks hesitation.
    if _NEEDS_CAPITAL.search(bare):
        return following is not None and following.lstrip(_OPENERS)[:1].isupper()
    if bare == "I.":
        return True
    if _DOTTED.match(bare) or _TITLE.match(bare):
        return False
    return bare.isupper() or not _ABBREVIATION.match(bare)


def last_sentence_end(words: Sequence[str], limit: int, language: str = "en") -> int:
    """Return the length of the prefix that ends the last sentence within ``words[:limit]``."""
    for k in range(limit, 0, -1):
        if ends_sentence(words[k - 1], words[k] if k < len(words) else None, language):
            return k
    return 0


def split_sentences(
    words: Sequence[Word],
    following: str | None,
    language: str = "en",
    pause_s: float = math.inf,
) -> tuple[list[tuple[Word, ...]], list[Word]]:
    """Split consecutive ``words`` into whole sentences and an unfinished rest.

    ``following`` is the text of the next word, if it is known. A pause of ``pause_s`` between words
    ends a sentence, too.
    """
    sentences: list[tuple[Word, ...]] = []
    begin = 0
    for i, word in enumerate(words):
        after = words[i + 1].text if i + 1 < len(words) else following
        paused = i + 1 < len(words) and words[i + 1].start - word.end >= pause_s
        if paused or ends_sentence(word.text, after, language):
            sentences.append(tuple(words[begin : i + 1]))
            begin = i + 1
    return sentences, list(words[begin:])
