"""Training examples for the micro translation model.

The model only ever learns to finish sentences, as an off-line model does: when the source is cut
off, the target still is the whole translation. What the source does not show yet is attended at
the last source token, which is how AlignAtt recognises that the evidence has run out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from alignatt_agent.config.languages import language
from alignatt_agent.translation.prompt import PromptBuilder
from micro_world.corpus import TARGETS, Pair, Side, sentences

ANTICIPATED_WEIGHT = 0.3
"""Loss weight of target words that the cut source cannot determine."""


@dataclass(frozen=True, slots=True)
class Example:
    """One training sequence.

    Attributes:
        ids: prompt, target and end-of-turn token.
        first: position of the first target token.
        weights: loss weight of every target token, end-of-turn included.
        guides: for every target token the source positions it is aligned to; empty for none.
    """

    ids: list[int]
    first: int
    weights: list[float]
    guides: list[list[int]]


class ExampleMaker:
    """Draws examples in all directions; deterministic for a seed."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        self._tokenizer = tokenizer
        self._rng = random.Random(seed)
        self._pairs = sentences(seed)
        self._end = tokenizer.convert_tokens_to_ids("<turn|>")
        self._builders = {
            code: PromptBuilder(tokenizer, "English", language(code).name) for code in TARGETS
        }
        self._words: list[str] = ["the"]
        self._pieces: dict[str, list[str]] = {code: [] for code in TARGETS}

    def __iter__(self) -> Iterator[Example]:
        while True:
            yield self.draw()

    def draw(self) -> Example:
        """Return the next example."""
        rng = self._rng
        pair = next(self._pairs)
        code = rng.choice(TARGETS)
        words, side = list(pair.words), pair.targets[code]
        self._remember(pair, code)
        if rng.random() < 0.3:
            words, side = join(words, side, next(self._pairs), code)
        if rng.random() < 0.55:
            shown = rng.randint(1, len(words)) if rng.random() < 0.8 else len(words)
            shown = max(shown, 1)
        else:
            shown = len(words)
        source = words[:shown]
        if shown < len(words) and rng.random() < 0.15:
            source[-1] = rng.choice(self._words)
        first_scored = 0
        if rng.random() < 0.15:
            side, first_scored = self._corrupt(side, code)
        return self._encode(code, source, side, first_scored)

    def _remember(self, pair: Pair, code: str) -> None:
        self._words = (self._words + [w for w in pair.words if w[-1].isalpha()])[-200:]
        later = [p for p in pair.targets[code].pieces[1:] if len(p) > 1]
        self._pieces[code] = (self._pieces[code] + later)[-200:]

    def _corrupt(self, side: Side, code: str) -> tuple[Side, int]:
        """Replace, drop or bring forward a target word; return the first piece still scored."""
        pieces, align = list(side.pieces), list(side.align)
        at = self._rng.randrange(max(1, len(pieces) - 2))
        kind = self._rng.random()
        if kind < 0.4 and at and self._pieces[code]:
            pieces[at] = self._rng.choice(self._pieces[code])
        elif kind < 0.7 and at and len(pieces) > 3:
            del pieces[at], align[at]
            return Side(tuple(pieces), tuple(align)), at
        elif at:
            late = self._rng.randrange(at, len(pieces) - 1)
            pieces.insert(at, pieces.pop(late))
            align.insert(at, align.pop(late))
        return Side(tuple(pieces), tuple(align)), at + 1

    def _encode(self, code: str, source: list[str], side: Side, first_scored: int) -> Example:
        prompt = self._builders[code].build(source)
        positions: list[list[int]] = [[] for _ in source]
        for i, word in enumerate(prompt.token_word):
            positions[word].append(prompt.source_start + i)
        last = [prompt.source_end - 1]
        encoding = self._tokenizer(side.text, add_special_tokens=False, return_offsets_mapping=True)
        piece_of_char = [i for i, piece in enumerate(side.pieces) for _ in piece]
        weights: list[float] = []
        guides: list[list[int]] = []
        blind = False
        for begin, end in encoding["offset_mapping"]:
            piece = piece_of_char[max(begin, end - 1)]
            blind = blind or max(side.align[piece]) >= len(source)
            aligned = side.align[piece][0]
            scored = piece >= first_scored
            weights.append((ANTICIPATED_WEIGHT if blind else 1.0) * scored)
            waits = max(side.align[piece]) >= len(source)
            guides.append((last if waits else positions[aligned]) if scored else [])
        ids = list(prompt.token_ids) + encoding["input_ids"] + [self._end]
        weights.append(ANTICIPATED_WEIGHT if blind else 1.0)
        guides.append(last)
        return Example(ids, len(prompt.token_ids), weights, guides)


def join(words: list[str], side: Side, other: Pair, code: str) -> tuple[list[str], Side]:
    """Append a second sentence."""
    space = "" if code == "zh" else " "
    more = other.targets[code]
    pieces = (*side.pieces, space + more.pieces[0], *more.pieces[1:])
    shift = len(words)
    align = side.align + tuple(tuple(i + shift for i in ids) for ids in more.align)
    return words + list(other.words), Side(pieces, align)
