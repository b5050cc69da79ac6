"""Names in talks, and the lists of names that recognizer and translation model receive."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab.micro_world import lexicon

NAMES = [name.en for name in (*lexicon.NAME, *(n for pair in lexicon.SPELLINGS for n in pair))]


def drawn_names(rng: random.Random, words: Sequence[str]) -> list[str]:
    """Draw the list of names of a talk: those that occur, and others in one of their spellings."""
    said = {word.strip(".,") for word in words} & set(NAMES)
    heard = {n.en for pair in lexicon.SPELLINGS if said & {p.en for p in pair} for n in pair}
    free = [pair for pair in lexicon.SPELLINGS if pair[0].en not in heard]
    more = [rng.choice(pair).en for pair in rng.sample(free, rng.randint(1, 4))]
    more += [name.en for name in rng.sample(lexicon.NAME, 2) if name.en not in said]
    names = sorted(said) + more
    rng.shuffle(names)
    return names
