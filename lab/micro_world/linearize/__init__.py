"""Trees to words, one module a language."""

from __future__ import annotations

from lab.micro_world.linearize.chinese import Chinese
from lab.micro_world.linearize.english import linearize as english
from lab.micro_world.linearize.german import German
from lab.micro_world.linearize.italian import Italian
from lab.micro_world.linearize.token import Token
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.tree import Sentence

__all__ = ["TARGETS", "english", "linearize"]

TARGETS: dict[str, type[German | Italian | Chinese]] = {"de": German, "it": Italian, "zh": Chinese}


def linearize(sentence: Sentence, language: str, wording: Wording) -> list[Token]:
    """Return the words of ``sentence`` in ``language`` (``de``, ``it`` or ``zh``)."""
    writer: German | Italian | Chinese = TARGETS[language](wording)
    return writer.sentence(sentence)
