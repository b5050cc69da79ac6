"""Trees to words, one module a language."""

from __future__ import annotations

import random

from lab.micro_world.linearize.chinese import Chinese
from lab.micro_world.linearize.english import linearize as english
from lab.micro_world.linearize.german import German
from lab.micro_world.linearize.italian import Italian
from lab.micro_world.linearize.writer import Token
from lab.micro_world.tree import Sentence

__all__ = ["english", "linearize"]

TARGETS = {writer.code: writer for writer in (German, Italian, Chinese)}


def linearize(sentence: Sentence, language: str, rng: random.Random) -> list[Token]:
    """Return the words of ``sentence`` in ``language`` (``de``, ``it`` or ``zh``)."""
    return TARGETS[language](rng).sentence(sentence)
