"""Parallel sentences with gold word alignments, split into training and held-out ones."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from micro_world.grammar import Grammar
from micro_world.linearise import linearise
from micro_world.linearise.token import END, surface

TARGETS = ("de", "it", "zh")


@dataclass(frozen=True, slots=True)
class Side:
    """One language of a pair.

    Attributes:
        pieces: written words, each with its leading space; their concatenation is the text.
        align: for every piece the English word indices it depends on, the aligned one first.
    """

    pieces: tuple[str, ...]
    align: tuple[tuple[int, ...], ...]

    @property
    def text(self) -> str:
        """The sentence as written."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Pair:
    """An English sentence and its translations; words carry their punctuation."""

    words: tuple[str, ...]
    targets: dict[str, Side]

    @property
    def text(self) -> str:
        """The English sentence as written."""
        return " ".join(self.words)


def sentences(seed: int, *, held_out: bool = False) -> Iterator[Pair]:
    """Yield pairs for ever; held-out sentences never occur among the others."""
    grammar = Grammar(random.Random(seed))
    while True:
        tree = grammar.sentence()
        tokens = linearise(tree, "en")
        words: list[str] = []
        where: dict[int, int] = {}
        for token in tokens:
            if token.glue:
                words[-1] += token.text
                where.setdefault(token.ids[0], len(words) - 1)
                continue
            where[token.ids[0]] = len(words)
            words.append(token.text)
        where[END] = len(words) - 1
        if len(words) > 18 or is_held_out(" ".join(words)) != held_out:
            continue
        targets = {}
        for language in TARGETS:
            target = linearise(tree, language)
            targets[language] = Side(
                tuple(surface(target, spaced=language != "zh")),
                tuple(tuple(where[i] for i in token.ids) for token in target),
            )
        yield Pair(tuple(words), targets)


def is_held_out(text: str) -> bool:
    """One sentence in ten is held out, decided by its text alone."""
    return zlib.crc32(text.encode()) % 10 == 0


def reorders(pair: Pair, language: str, distance: int = 3) -> bool:
    """Tell whether two aligned words cross over more than ``distance`` words."""
    heads = [align[0] for align in pair.targets[language].align]
    return any(
        heads[i] - heads[j] > distance for i in range(len(heads)) for j in range(i, len(heads))
    )
