"""Translate the words of a sentence as they arrive, with the product's own translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alignatt_agent.policy import Policy
from alignatt_agent.types import SourceView, Word
from lab.curves.direction import Direction

WORD_S = 0.35
"""Seconds per word, which only define the times of units."""


class Sentence:
    """A sentence that arrives word by word, as policies of the lab may inspect it.

    Attributes:
        words: all words of the sentence with times.
        translator: translates the sentence.
        offline: token ids of the off-line translation, for the oracle.
    """

    offline: tuple[int, ...] = ()

    def __init__(self, direction: Direction, source: str, build: Build) -> None:
        self.words = timed(source.split())
        self.translator = direction.translator(build(self))

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the accepted token ids."""
        return self.translator.accepted


Build = Callable[[Sentence], Policy]
"""Creates the policy for a sentence."""


@dataclass(frozen=True, slots=True)
class Output:
    """Units of a sentence, and the number of source words heard when each unit was emitted."""

    units: tuple[str, ...] = ()
    heard: tuple[int, ...] = ()

    def adding(self, units: Sequence[str], heard: int) -> Output:
        """Append the units of one update."""
        return Output(
            units=(*self.units, *units),
            heard=self.heard + (heard,) * len(units),
        )

    @property
    def text(self) -> str:
        """Return the whole translation."""
        return "".join(self.units).strip()

    def lag(self, words: int, reference: str, spaced: bool) -> float:
        """Return the mean lag of the units in source words.

        The lag of a unit is the number of words heard minus the words that an ideal translator
        needs. The ideal translator spreads the units evenly over the sentence, as in LAAL: over the
        units of the output or of the reference, whichever are more. In an unspaced script, every
        character counts.
        """
        heard = self.heard_in(spaced)
        if not heard:
            return float(words)
        reference_words = reference.split()
        reference_units = len(reference_words)
        if not spaced:
            reference_units = len("".join(reference_words))
        per_unit = words / max(len(heard), reference_units)
        lags = [arrived - place * per_unit for place, arrived in enumerate(heard)]
        return sum(lags) / len(lags)

    def heard_in(self, spaced: bool) -> list[int]:
        """Return the words heard at each unit, or at each character of an unspaced script."""
        heard: list[int] = []
        for unit, words in zip(self.units, self.heard, strict=True):
            # A unit contains the space before it.
            repeats = 1 if spaced else len(unit.strip())
            heard += [words] * repeats
        return heard


def timed(words: Sequence[str]) -> tuple[Word, ...]:
    """Return words with times."""
    timed_words: list[Word] = []
    for place, word in enumerate(words):
        start = WORD_S * place
        end = WORD_S * (place + 0.8)
        timed_words.append(Word(word, start, end))
    return tuple(timed_words)


def replay(direction: Direction, build: Build, source: str, step: int) -> Output:
    """Translate a sentence that arrives ``step`` words at a time; its end is known at once."""
    sentence = Sentence(direction, source, build)
    words = sentence.words
    output = Output()
    for heard in range(step, len(words), step):
        emission = sentence.translator.update(SourceView(words[:heard], heard))
        output = output.adding(emission.units, heard)
    emission = sentence.translator.complete(words)
    return output.adding(emission.units, len(words))
