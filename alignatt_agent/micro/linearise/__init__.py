"""Trees to words, one module a language."""

from __future__ import annotations

from alignatt_agent.micro.grammar import Sentence
from alignatt_agent.micro.linearise import chinese, english, german, italian
from alignatt_agent.micro.linearise.token import Token

TARGETS = {"de": german.linearise, "it": italian.linearise, "zh": chinese.linearise}


def linearise(sentence: Sentence, language: str) -> list[Token]:
    """Return the words of ``sentence`` in ``language`` (``en``, ``de``, ``it`` or ``zh``)."""
    if language == "en":
        return english.linearise(sentence)
    return TARGETS[language](sentence)
