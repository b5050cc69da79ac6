"""Trees to words, one module a language."""

from __future__ import annotations

from micro_world.grammar import Sentence
from micro_world.linearise import chinese, english, german, italian
from micro_world.linearise.token import Token

TARGETS = {"de": german.linearise, "it": italian.linearise, "zh": chinese.linearise}


def linearise(sentence: Sentence, language: str) -> list[Token]:
    """Return the words of ``sentence`` in ``language`` (``en``, ``de``, ``it`` or ``zh``)."""
    if language == "en":
        return english.linearise(sentence)
    return TARGETS[language](sentence)
