"""Stability units: which draft prefixes end on one, and the text they add.

Token ids are the only truth; text is always what the tokenizer makes of a whole id sequence.
Rounding drops ids and never splits a token, so a token that ends inside a unit is dropped with
the rest of that unit.

* Spaced scripts: a unit is a whitespace-delimited word with its punctuation. It is complete when
  the draft goes on with white space. Punctuation alone does not complete it: a quotation mark, a
  decimal or another dot may follow.
* Unspaced scripts: a unit is one character. A run of Latin letters, digits and ASCII marks is
  complete when something else follows, and is then written as single characters. A mark that is
  written on the character before it (in Thai, vowels and tones) is not parted from it.
* At the very end of a draft the last unit is complete only if nothing can be glued to it any more
  (``closed``); nor is final punctuation of an unspaced script taken before that.

White space and the replacement characters of broken UTF-8 are never part of a unit.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

BROKEN = "\ufffd"
CLOSING = ".,;:!?…。，、；：！？؟؛،।॥"  # noqa: RUF001
"""Marks that end a clause."""
QUOTES = "\"'“”’»›)]}」』》）】"  # noqa: RUF001
"""Marks that may stand behind a closing one."""


def ends_clause(text: str) -> bool:
    """Whether ``text`` ends with closing punctuation, quotation marks aside."""
    return text.rstrip(QUOTES).endswith(tuple(CLOSING))


def is_punctuation(text: str) -> bool:
    """Whether ``text`` is nothing but closing punctuation and quotation marks."""
    return bool(text) and all(char in CLOSING + QUOTES for char in text)


class UnitDecoder:
    """Reads token ids as stability units of a language, ``spaced`` if it has spaces."""

    def __init__(self, tokenizer: Any, spaced: bool) -> None:
        self._tokenizer = tokenizer
        self._spaced = spaced

    def complete(
        self, accepted: Sequence[int], draft: Sequence[int], limit: int, closed: bool
    ) -> int:
        """Return the length of the longest prefix of ``draft`` in whole units, at most ``limit``.

        ``closed`` says that nothing can follow the draft's last token.
        """
        before = self.text(accepted)
        texts = [self.text([*accepted, *draft[:k]]) for k in range(1, len(draft) + 1)]
        # A partial character tells nothing about what follows; some decoders even blank the whole
        # bytes before it.
        seen = next((text for text in reversed(texts) if not text.endswith(BROKEN)), before)
        for k in range(limit, 0, -1):
            text = texts[k - 1]
            grown = text.startswith(before) and seen.startswith(text)
            if grown and self._is_boundary(text, seen[len(text) :], closed):
                return k
        return 0

    def boundaries(self, ids: Sequence[int]) -> list[int]:
        """Return every length at which ``ids`` split between units, 0 and the end included."""
        whole = self.text(ids)
        inner = []
        for k in range(1, len(ids)):
            text = self.text(ids[:k])
            if whole.startswith(text) and self._is_boundary(text, whole[len(text) :], True):
                inner.append(k)
        return [0, *inner, len(ids)] if ids else [0]

    def units(self, accepted: Sequence[int], added: Sequence[int]) -> tuple[str, ...]:
        """Return the units that ``added`` ids append to the text of the ``accepted`` ones.

        Where a decoder rewrites earlier text, which is emitted, the added ids are read alone.
        """
        if not added:
            return ()
        before, after = self.text(accepted), self.text([*accepted, *added])
        grown = after[len(before) :] if after.startswith(before) else self.text(added)
        return tuple(grown.replace(BROKEN, "").split() if self._spaced else _solid(grown))

    def owners(self, accepted: Sequence[int], added: Sequence[int]) -> list[list[int]]:
        """Return which ``added`` tokens, at least one, write each of ``units(accepted, added)``."""
        if not added:
            return []
        whole = self.text([*accepted, *added])
        before = list(accepted) if whole.startswith(self.text(accepted)) else []
        spans, written = [], len(_solid(self.text(before)))
        offset = written
        for k in range(1, len(added) + 1):
            text = self.text([*before, *added[:k]])
            begin, written = written, max(written, len(_solid(text)))
            # A part of a character counts for the character that comes next.
            spans.append((begin - offset, written - offset + text.endswith(BROKEN)))
        owners: list[list[int]] = []
        end = 0
        for unit in self.units(accepted, added):
            start, end = end, end + len(unit)
            mine = [k for k, (left, right) in enumerate(spans) if left < end and right > start]
            owners.append(mine or (owners[-1] if owners else [0]))
        return owners

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _is_boundary(self, text: str, rest: str, closed: bool) -> bool:
        if not text:
            return True
        if text.endswith(BROKEN):
            return False
        if text[-1].isspace() or rest[:1].isspace():
            return True
        if not rest:
            last = text[-1]
            open_end = _in_run(last) or _is_thai(last) or last in CLOSING + QUOTES
            return closed or not (self._spaced or open_end)
        if self._spaced or _is_mark(rest[0]):
            return False
        return not (_in_run(text[-1]) and _in_run(rest[0]))


def _solid(text: str) -> str:
    """Leave out white space and broken characters, which are never part of a unit."""
    return "".join(text.replace(BROKEN, "").split())


def _is_thai(char: str) -> bool:
    return "\u0e00" <= char <= "\u0e7f"


def _is_mark(char: str) -> bool:
    """Whether a character is written on the one before it; of Thai's vowels, AM is half a mark."""
    return unicodedata.category(char)[0] == "M" or char == "\u0e33"


def _in_run(char: str) -> bool:
    """Whether a character of an unspaced script belongs to a run that is kept whole."""
    if _is_thai(char):
        return False
    if unicodedata.category(char)[0] == "M":
        return True
    wide = unicodedata.east_asian_width(char) in "WF"
    return not wide and (char.isascii() or unicodedata.category(char)[0] in "LNS")
