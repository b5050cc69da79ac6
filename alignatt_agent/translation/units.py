"""Stability units: which draft prefixes end on one, and the text they append.

Token ids are the only truth; text is always what the tokenizer makes of a whole id sequence.
Rounding drops ids and never splits a token, so a token that ends inside a unit is dropped with
the rest of that unit. A unit begins with the white space in front of it, as one character, so the
units of accepted ids, one after the other, are the text of those ids.

* Spaced scripts: a unit is a whitespace-delimited word with its punctuation. It is complete when
  the draft goes on with white space. Punctuation alone does not complete it: a quotation mark, a
  decimal or another dot may follow.
  A draft that goes on inside an accepted word is appended to it without a space.
* Unspaced scripts: a unit is one grapheme cluster, in Thai with its vowels, or a run of Latin
  letters, digits and ASCII marks, which is complete when something else follows.
* At the very end of a draft the last unit is complete only if nothing can be glued to it any more
  (``closed``); nor is final punctuation of an unspaced script taken before that.

Replacement characters of broken UTF-8 are never part of a unit.
"""

from collections.abc import Sequence
from typing import Any

import regex

BROKEN = "\ufffd"
CLOSING = ".,;:!?…。，、；：！？؟؛،।॥"  # noqa: RUF001
"""Marks that end a clause."""
QUOTES = "\"'“”’»›)]}」』》）】"  # noqa: RUF001
"""Marks that may stand behind a closing one."""
_RUN = r"[[\p{ASCII}\p{L}\p{N}\p{S}\p{M}]--[\s\x1c-\x1f\p{ea=W}\p{ea=F}\u0e00-\u0e7f]]"
_CLUSTER = r"\p{InPC=Visual_Order_Left}*\X\p{InPC=Right}*"  # Thai: one vowel comes first
_UNSPACED = regex.compile(rf"([\s\x1c-\x1f]*+)((?:(?={_RUN})\X)+|{_CLUSTER})", regex.V1)
_SPACED = regex.compile(r"([\s\x1c-\x1f]*+)([^\s\x1c-\x1f]+)", regex.V1)
_OPEN_END = regex.compile(rf"{_RUN}|[\u0e00-\u0e7f]", regex.V1)
_GAP = regex.compile(r"\p{Zs}?")


def ends_clause(text: str) -> bool:
    """Whether ``text`` ends with closing punctuation, quotation marks aside."""
    return text.rstrip(QUOTES).endswith(tuple(CLOSING))


def is_punctuation(text: str) -> bool:
    """Whether ``text`` is nothing but closing punctuation and quotation marks."""
    return bool(text.strip()) and all(char in CLOSING + QUOTES for char in text.strip())


def part(left: str, right: str) -> bool:
    """Whether two texts of an unspaced script that touch are different units."""
    return any(found.end() == len(left) for found in _UNSPACED.finditer(left + right))


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
        alone = " " * self._spaced + self.text(added)
        grown = after[len(before.rstrip()) :] if after.startswith(before) else alone
        found = (_SPACED if self._spaced else _UNSPACED).findall(grown.replace(BROKEN, ""))
        return tuple((gap if _GAP.fullmatch(gap) else " ") + solid for gap, solid in found)

    def apart(self, last: str, unit: str) -> str:
        """Return ``unit`` as text that does not continue what was emitted ``last``."""
        bare = unit.lstrip()
        return bare if not self._spaced and (not last or part(last, bare)) else f" {bare}"

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
            start, end = end, end + len(_solid(unit))
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
            open_end = text[-1] in CLOSING + QUOTES or _OPEN_END.match(text[-1])
            return closed or not (self._spaced or open_end)
        return not self._spaced and part(text, rest)


def _solid(text: str) -> str:
    """Leave out white space and broken characters."""
    return "".join(text.replace(BROKEN, "").split())
