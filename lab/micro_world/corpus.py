"""Parallel sentences with gold word alignments, split into training and held-out sentences."""

import random
import zlib
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from lab.micro_world.grammar import Grammar
from lab.micro_world.linearize import english
from lab.micro_world.linearize.chinese import Chinese
from lab.micro_world.linearize.german import German
from lab.micro_world.linearize.italian import Italian
from lab.micro_world.linearize.writer import END, surface
from lab.micro_world.tree import Sentence

WRITERS: dict[str, type[German | Italian | Chinese]] = {
    writer.code: writer for writer in (German, Italian, Chinese)
}
TARGETS = tuple(WRITERS)
LONGEST = 20
"""Maximum number of words of a sentence."""


class Side(NamedTuple):
    """One language of a pair."""

    pieces: tuple[str, ...]
    """Written words, each with its leading space; their concatenation is the text."""
    align: tuple[tuple[int, ...], ...]
    """For every piece the English word indices that it depends on, the aligned one first."""

    @property
    def text(self) -> str:
        """Return the written sentence."""
        return "".join(self.pieces)

    def known_pieces(self, shown: int) -> int:
        """Return the number of leading pieces that depend only on the first ``shown`` words."""
        for count, align in enumerate(self.align):
            if max(align) >= shown:
                return count
        return len(self.pieces)


class Pair(NamedTuple):
    """An English sentence, its tree, and a translation into each target language.

    Words carry their punctuation; a translation is one of several correct wordings.
    """

    words: tuple[str, ...]
    targets: dict[str, Side]
    tree: Sentence

    @property
    def text(self) -> str:
        """Return the written English sentence."""
        return " ".join(self.words)

    def reworded(self, language: str, rng: random.Random) -> Side:
        """Draw another translation; it may be the same."""
        _, where = _english(self.tree)
        return translate(self.tree, language, rng, where)


def sentences(seed: int | str, *, held_out: bool = False, linked: bool = False) -> Iterator[Pair]:
    """Yield pairs endlessly; held-out sentences never occur in the training sentences.

    If ``linked``, "it" refers to a thing in the previous sentence, wherever it can be the subject.
    """
    grammar = Grammar(random.Random(seed))
    # Wordings have their own generator, so that they do not change the sentences that follow.
    rng = random.Random(f"wording {seed}")
    previous = None
    while True:
        tree = grammar.sentence()
        if linked and previous:
            grammar.refer(tree, previous)
        words, where = _english(tree)
        if len(words) > LONGEST or is_held_out(" ".join(words)) != held_out:
            continue
        previous = tree
        targets = {code: translate(tree, code, rng, where) for code in TARGETS}
        yield Pair(words, targets, tree)


def translate(tree: Sentence, language: str, rng: random.Random, where: dict[int, int]) -> Side:
    """Write a tree in a target language; ``where`` maps its identities to English word indices."""
    tokens = WRITERS[language](rng).sentence(tree)
    pieces = surface(tokens, spaced=language != "zh")
    align = []
    for token in tokens:
        words = tuple(where[leaf] for leaf in token.ids)
        align.append(words)
    return Side(tuple(pieces), tuple(align))


def _english(tree: Sentence) -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the English words, and the index of the word of each identity."""
    words: list[str] = []
    where: dict[int, int] = {}
    for token in english.linearize(tree):
        leaf = token.ids[0]
        if token.glue:
            # A mark is a part of the word before it.
            words[-1] += token.text
            where.setdefault(leaf, len(words) - 1)
        else:
            where[leaf] = len(words)
            words.append(token.text)
    where[END] = len(words) - 1
    return tuple(words), where


def is_held_out(text: str) -> bool:
    """Whether a sentence is held out, which is decided by its text alone: one in ten."""
    # A hash of the text splits equal sentences of all seeds alike.
    return zlib.crc32(text.encode()) % 10 == 0


def reorders(pair: Pair, language: str, distance: int = 3) -> bool:
    """Whether two aligned words cross over more than ``distance`` words."""
    heads = [align[0] for align in pair.targets[language].align]
    return any(first - later > distance for first, later in combinations(heads, 2))
