"""Stability units: the draft prefixes of whole units, and the text that they append.

Token ids define the output; text is always decoded from a whole id sequence. Rounding drops ids and
never splits a token, so a token that ends inside a unit is dropped with the rest of that unit. A
unit begins with the preceding white space, as one character. The concatenated units of accepted ids
are therefore the text of these ids.

* Spaced scripts: a unit is a whitespace-delimited word with its punctuation. The unit is complete
  when white space follows in the draft. Punctuation alone does not complete a unit: a quotation
  mark, a decimal or another dot may follow. A draft that continues an accepted word is appended to
  it without a space.
* Unspaced scripts: a unit is one grapheme cluster, in Thai with its vowels, or a run of Latin
  letters, digits and ASCII marks. A run is complete when something else follows.
* At the end of a draft, the last unit is complete only if no more text can be attached to it
  (``closed``). In an unspaced script, this also applies to final punctuation.

Replacement characters of broken UTF-8 are never part of a unit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import regex

from alignatt_agent.types.running_text import common_prefix

BROKEN = "\ufffd"
"""Replacement character, which decoders write for an incomplete character."""
LOOK = 8
"""Number of tokens decoded together after which a cut is searched for. For each token of a
400-token sentence with drafts of 16, Qwen3's tokenizer decodes 13 in German and 28 in Chinese."""
CLOSING = ".,;:!?…。，、；：！？؟؛،।॥"  # noqa: RUF001
"""Marks that end a clause."""
QUOTES = "\"'“”’»›)]}」』》）】"  # noqa: RUF001
"""Marks that may follow a closing mark."""
_RUN = r"[[\p{ASCII}\p{L}\p{N}\p{S}\p{M}]--[\s\x1c-\x1f\p{ea=W}\p{ea=F}\u0e00-\u0e7f]]"
_CLUSTER = r"\p{InPC=Visual_Order_Left}*\X\p{InPC=Right}*"  # some Thai vowels come first
_UNSPACED = regex.compile(rf"([\s\x1c-\x1f]*+)((?:(?={_RUN})\X)+|{_CLUSTER})", regex.V1)
_SPACED = regex.compile(r"([\s\x1c-\x1f]*+)([^\s\x1c-\x1f]+)", regex.V1)
_OPEN_END = regex.compile(rf"{_RUN}|[\u0e00-\u0e7f]", regex.V1)
_GAP = regex.compile(r"\p{Zs}?")


def ends_clause(text: str) -> bool:
    """Return whether ``text`` ends with closing punctuation, ignoring quotation marks."""
    return text.rstrip(QUOTES).endswith(tuple(CLOSING))


def is_punctuation(text: str) -> bool:
    """Return whether ``text`` consists only of closing punctuation and quotation marks."""
    return bool(text.strip()) and all(char in CLOSING + QUOTES for char in text.strip())


def part(left: str, right: str) -> bool:
    """Return whether a unit boundary separates adjacent texts of an unspaced script."""
    return any(found.end() == len(left) for found in _UNSPACED.finditer(left + right))


class Prefix(NamedTuple):
    """A prefix of token ids; its text is ``head``, which later tokens cannot change, and ``text``.

    Only the ids of ``tail``, whose text is ``text``, are decoded with the next id.
    """

    head: str = ""
    tail: tuple[int, ...] = ()
    text: str = ""


class UnitDecoder:
    """Splits token ids into stability units; ``spaced`` means that the language uses spaces."""

    def __init__(self, tokenizer: Any, spaced: bool) -> None:
        self._tokenizer, self._spaced = tokenizer, spaced
        self._ids: tuple[int, ...] = ()
        self._read = [Prefix()]  # every prefix of these ids

    def complete(
        self, accepted: Sequence[int], draft: Sequence[int], limit: int, closed: bool
    ) -> int:
        """Return the length of the longest prefix of ``draft`` in whole units, at most ``limit``.

        ``closed`` means that nothing can follow the draft's last token.
        """
        texts = self._texts(accepted, draft)
        # A partial character does not show what follows; some decoders even replace the complete
        # bytes before it.
        seen = next((text for text in reversed(texts) if not text.endswith(BROKEN)), texts[0])
        cuts = self._cuts(texts, seen, closed)
        return max((k for k in cuts if k <= limit and texts[k].startswith(texts[0])), default=0)

    def boundaries(self, ids: Sequence[int], begin: int = 0) -> list[int]:
        """Return the unit boundaries in ``ids`` from ``begin`` on, including the end."""
        texts = self._texts(ids[:begin], ids[begin:])
        cuts = self._cuts(texts[:-1], texts[-1], closed=True)
        return [*(begin + cut for cut in cuts), len(ids)]

    def units(self, accepted: Sequence[int], added: Sequence[int]) -> tuple[str, ...]:
        """Return the units that ``added`` ids append to the text of the ``accepted`` ids.

        If a decoder rewrites emitted text, only the added ids are decoded.
        """
        if not added:
            return ()
        before, *_, after = self._appended(accepted, added)
        grown = after[len(before.rstrip()) :].replace(BROKEN, "")
        found = (_SPACED if self._spaced else _UNSPACED).findall(grown)
        return tuple((gap if _GAP.fullmatch(gap) else " ") + solid for gap, solid in found)

    def apart(self, last: str, unit: str) -> str:
        """Return ``unit`` in a form that does not continue the ``last`` emitted unit."""
        bare = unit.lstrip()
        return bare if not self._spaced and (not last or part(last, bare)) else f" {bare}"

    def owners(self, accepted: Sequence[int], added: Sequence[int]) -> list[list[int]]:
        """Return the ``added`` tokens, at least one, of each unit of ``units(accepted, added)``."""
        before, *texts = self._appended(accepted, added)
        spans, written = [], len(_solid(before))
        offset = written
        for text in texts:
            begin, written = written, max(written, len(_solid(text)))
            # A token that ends inside a character also belongs to that character.
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
        last = self._prefixes(ids)[-1]
        return last.head + last.text

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text of each id, decoded separately."""
        return tuple(self._decode((token,)) for token in ids)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _texts(self, accepted: Sequence[int], added: Sequence[int]) -> list[str]:
        """Return the text of ``accepted``, and the text after each ``added`` id.

        All texts omit the same beginning, which ends at a unit boundary.
        """
        found = self._prefixes((*accepted, *added))[len(accepted) :]
        begin = len(found[0].head)
        return [prefix.head[begin:] + prefix.text for prefix in found]

    def _prefixes(self, ids: Sequence[int]) -> list[Prefix]:
        """Return every prefix of ``ids``; prefixes shared with the previous call are reused."""
        same = common_prefix(self._ids, ids)
        if same < len(ids):
            found = self._read[: same + 1]
            for token in ids[same:]:
                found.append(self._extended(found[-1], token))
            self._ids, self._read = tuple(ids), found
        return self._read[: len(ids) + 1]

    def _extended(self, before: Prefix, token: int) -> Prefix:
        """Return the next prefix; cut the tail at a unit's start if the text stays the same."""
        tail = (*before.tail, token)
        text = self._decode(tail)
        if len(tail) % LOOK == 0:
            for cut in range(len(tail) - 1, len(tail) - LOOK, -1):
                alone = self._decode(tail[cut : cut + 1])
                if BROKEN in alone or not alone.strip() or (alone.isascii() and len(alone) < 2):
                    continue  # the token has no text, or may be a byte that later bytes change
                rest = self._decode(tail[cut:])
                head = text[: len(text) - len(rest)]
                if text.endswith(rest) and self._cuts([head], text, closed=False):
                    return Prefix(before.head + head, tail[cut:], rest)
        return Prefix(before.head, tail, text)

    def _appended(self, accepted: Sequence[int], added: Sequence[int]) -> list[str]:
        """Return ``_texts``, or the texts of ``added`` alone if a decoder rewrites emitted text."""
        texts = self._texts(accepted, added)
        if texts[-1].startswith(texts[0]):
            return texts
        alone = (self._decode(added[:k]) for k in range(len(added) + 1))
        return [" " * self._spaced + text for text in alone]

    def _cuts(self, texts: Sequence[str], whole: str, closed: bool) -> list[int]:
        """Return the indices of ``texts`` that end at a unit boundary of ``whole``.

        ``whole`` continues them; ``closed`` means that nothing can follow ``whole``.
        """
        ends = set() if self._spaced else {found.end() for found in _UNSPACED.finditer(whole)}

        def is_end(text: str) -> bool:
            if text.endswith(BROKEN) or not whole.startswith(text):
                return False
            if not text or text[-1].isspace() or whole[len(text) :][:1].isspace():
                return True
            if len(text) == len(whole):
                open_end = text[-1] in CLOSING + QUOTES or _OPEN_END.match(text[-1])
                return closed or not (self._spaced or open_end)
            return len(text) in ends

        return [k for k, text in enumerate(texts) if is_end(text)]


def _solid(text: str) -> str:
    """Remove white space and broken characters."""
    return "".join(text.replace(BROKEN, "").split())
