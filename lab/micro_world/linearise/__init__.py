"""Trees to words, one module a language."""

from __future__ import annotations

from lab.micro_world.linearise.chinese import Chinese
from lab.micro_world.linearise.english import linearise as english
from lab.micro_world.linearise.german import German
from lab.micro_world.linearise.italian import Italian
from lab.micro_world.linearise.token import Token
from lab.micro_world.linearise.wording import Wording
from lab.micro_world.tree import Sentence

__all__ = ["TARGETS", "english", "linearise"]

TARGETS: dict[str, type[German | Italian | Chinese]] = {"de": German, "it": Italian, "zh": Chinese}


def linearise(sentence: Sentence, language: str, wording: Wording) -> list[Token]:
    """Return the words of ``sentence`` in ``language`` (``de``, ``it`` or ``zh``)."""
    writer: German | Italian | Chinese = TARGETS[language](wording)
    return writer.sentence(sentence)
