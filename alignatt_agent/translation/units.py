"""Stability units: the draft prefixes of whole units, and the text that they append.

Token ids define the output; text is always decoded from a whole id sequence. Rounding drops ids and
never splits a token, so a token that ends inside a unit is dropped with the rest of that unit. A
unit (``text/unit_boundaries.py``) begins with the preceding white space, as one character. The
concatenated units of accepted ids are therefore the text of these ids.

* Spaced scripts: a unit is complete when white space follows in the draft. Punctuation alone does
  not complete a unit: a quotation mark, a decimal or another dot may follow. A draft that continues
  an accepted word is appended to it without a space.
* Unspaced scripts: a run of Latin letters, digits and ASCII marks is complete when something else
  follows.
* At the end of a draft, the last unit is complete only if no more text can be attached to it
  (``closed``). In an unspaced script, this also applies to final punctuation.

Replacement characters of broken UTF-8 are never part of a unit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from alignatt_agent.text.running_text import common_prefix
from alignatt_agent.text.unit_boundaries import (
    boundary_between,
    split_units,
    takes_more,
    unspaced_ends,
)

BROKEN = "\ufffd"
"""Replacement character, which decoders write for an incomplete character."""
LOOK = 8
"""Number of tokens decoded together after which a cut is searched for. For each token of a
400-token sentence with drafts of 16, Qwen3's tokenizer decodes 13 in German and 28 in Chinese."""


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
        self._tokenizer = tokenizer
        self._spaced = spaced
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
        whole = texts[0]
        for text in reversed(texts):
            if not text.endswith(BROKEN):
                whole = text
                break
        length = 0
        for cut in self._cuts(texts, whole, closed):
            # A decoder that rewrites the accepted text would change emitted text.
            if cut <= limit and texts[cut].startswith(texts[0]):
                length = cut
        return length

    def boundaries(self, ids: Sequence[int], begin: int = 0) -> list[int]:
        """Return the unit boundaries in ``ids`` from ``begin`` on, including the end."""
        texts = self._texts(ids[:begin], ids[begin:])
        cuts = self._cuts(texts[:-1], texts[-1], closed=True)
        boundaries = [begin + cut for cut in cuts]
        boundaries.append(len(ids))
        return boundaries

    def units(self, accepted: Sequence[int], added: Sequence[int]) -> tuple[str, ...]:
        """Return the units that ``added`` ids append to the text of the ``accepted`` ids.

        If a decoder rewrites emitted text, only the added ids are decoded.
        """
        if not added:
            return ()
        texts = self._appended(accepted, added)
        before = texts[0].rstrip()
        appended = texts[-1][len(before) :].replace(BROKEN, "")
        return split_units(appended, self._spaced)

    def apart(self, last: str, unit: str) -> str:
        """Return ``unit`` in a form that does not continue the ``last`` emitted unit."""
        bare = unit.lstrip()
        if self._spaced:
            return f" {bare}"
        if not last or boundary_between(last, bare):
            return bare
        # Without a space, two runs of Latin letters or digits would be one unit.
        return f" {bare}"

    def owners(self, accepted: Sequence[int], added: Sequence[int]) -> list[list[int]]:
        """Return the ``added`` tokens, at least one, of each unit of ``units(accepted, added)``."""
        token_spans = self._token_spans(accepted, added)
        owners: list[list[int]] = []
        end = 0
        for unit in self.units(accepted, added):
            start = end
            end += len(_solid(unit))
            tokens: list[int] = []
            for token, (left, right) in enumerate(token_spans):
                if left < end and right > start:
                    tokens.append(token)
            # A unit without a token of its own shares the tokens of the previous unit.
            if not tokens and owners:
                tokens = owners[-1]
            owners.append(tokens or [0])
        return owners

    def _token_spans(self, accepted: Sequence[int], added: Sequence[int]) -> list[tuple[int, int]]:
        """Return the begin and end of each ``added`` token, in characters without white space."""
        before, *texts = self._appended(accepted, added)
        offset = len(_solid(before))
        spans: list[tuple[int, int]] = []
        begin = 0
        for text in texts:
            end = max(begin, len(_solid(text)) - offset)
            # A token that ends inside a character also belongs to that character.
            inside_character = text.endswith(BROKEN)
            spans.append((begin, end + inside_character))
            begin = end
        return spans

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
        prefixes = self._prefixes((*accepted, *added))[len(accepted) :]
        begin = len(prefixes[0].head)
        return [prefix.head[begin:] + prefix.text for prefix in prefixes]

    def _prefixes(self, ids: Sequence[int]) -> list[Prefix]:
        """Return every prefix of ``ids``; prefixes shared with the previous call are reused."""
        same = common_prefix(self._ids, ids)
        # A beginning of the previous ids needs no decoding.
        if same < len(ids):
            prefixes = self._read[: same + 1]
            for token in ids[same:]:
                extended = self._extended(prefixes[-1], token)
                prefixes.append(extended)
            self._ids = tuple(ids)
            self._read = prefixes
        return self._read[: len(ids) + 1]

    def _extended(self, before: Prefix, token: int) -> Prefix:
        """Return the next prefix; cut the tail at a unit's start if the text stays the same."""
        tail = (*before.tail, token)
        text = self._decode(tail)
        uncut = Prefix(before.head, tail, text)
        if len(tail) % LOOK != 0:
            return uncut
        for cut in range(len(tail) - 1, len(tail) - LOOK, -1):
            # The token has no text, or may be a byte that later bytes change.
            if _may_be_byte(self._decode(tail[cut : cut + 1])):
                continue
            rest = self._decode(tail[cut:])
            if not text.endswith(rest):
                continue
            head = text[: len(text) - len(rest)]
            if self._cuts([head], text, closed=False):
                return Prefix(before.head + head, tail[cut:], rest)
        return uncut

    def _appended(self, accepted: Sequence[int], added: Sequence[int]) -> list[str]:
        """Return ``_texts``, or the texts of ``added`` alone if a decoder rewrites emitted text."""
        texts = self._texts(accepted, added)
        if texts[-1].startswith(texts[0]):
            return texts
        # In a spaced script, the first added unit is then a separate word.
        separator = " " if self._spaced else ""
        return [separator + self._decode(added[:k]) for k in range(len(added) + 1)]

    def _cuts(self, texts: Sequence[str], whole: str, closed: bool) -> list[int]:
        """Return the indices of ``texts`` that end at a unit boundary of ``whole``.

        ``whole`` continues them; ``closed`` means that nothing can follow ``whole``.
        """
        ends: set[int] = set()
        if not self._spaced:
            ends = unspaced_ends(whole)
        cuts: list[int] = []
        for k, text in enumerate(texts):
            if text.endswith(BROKEN) or not whole.startswith(text):
                continue
            if len(text) == len(whole):
                may_grow = self._spaced or takes_more(text)
                is_end = closed or not may_grow
            else:
                following = whole[len(text)]
                is_end = following.isspace() or len(text) in ends
            # White space, or nothing, stands before the next unit.
            if is_end or not text or text[-1].isspace():
                cuts.append(k)
        return cuts


def _may_be_byte(text: str) -> bool:
    """Return whether the text of a token is blank, or may be part of a character."""
    if BROKEN in text or not text.strip():
        return True
    return text.isascii() and len(text) < 2


def _solid(text: str) -> str:
    """Remove white space and broken characters."""
    return "".join(text.replace(BROKEN, "").split())
