"""Translate the words of a sentence as they arrive, with the product's own translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alignatt_agent.config.languages import Language
from alignatt_agent.policy import Policy
from alignatt_agent.translation.drafter import Drafter
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import SourceView, Word
from alignatt_agent.types.engines import DraftRequest, Readout, TranslationEngine
from alignatt_agent.types.stopwatch import Stopwatch

WORD_S = 0.35
"""Seconds per word, which only define the times of units."""


@dataclass(frozen=True, slots=True)
class Direction:
    """A translation direction on a loaded engine."""

    engine: TranslationEngine
    builder: PromptBuilder
    tokenizer: Any
    readout: Readout
    target: Language
    max_draft_tokens: int

    def translator(self, policy: Policy) -> Translator:
        """Return a translator without early stop, because only whole drafts are shared."""
        readout = replace(self.readout, probabilities=policy.reads == "probabilities")
        return Translator(
            engine=self.engine,
            prompt_builder=self.builder,
            tokenizer=self.tokenizer,
            readout=readout,
            policy=policy,
            spaced=self.target.spaced,
            max_draft_tokens=self.max_draft_tokens,
            early_stop=False,
            history=History(self.builder),
        )

    def offline(self, source: str) -> tuple[int, ...]:
        """Return the token ids of the translation of a whole sentence."""
        units = UnitDecoder(self.tokenizer, self.target.spaced)
        drafter = Drafter(
            self.engine,
            self.builder,
            units,
            self.readout,
            self.max_draft_tokens,
            Stopwatch(),
            verify=True,
        )
        return drafter.finish(self.builder.build, tuple(source.split()), ())[0]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return UnitDecoder(self.tokenizer, self.target.spaced).text(ids).strip()


class Sentence:
    """A sentence that arrives word by word, as policies of the lab may inspect it.

    Attributes:
        words: all words of the sentence with times.
        heard: number of words that have arrived.
        translator: translates the sentence.
    """

    def __init__(self, direction: Direction, source: str, build: Build) -> None:
        self._direction = direction
        self.words = timed(source.split())
        self.heard = 0
        self.translator = direction.translator(build(self))

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the accepted token ids."""
        return self.translator.accepted

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text of each token."""
        return UnitDecoder(self._direction.tokenizer, self._direction.target.spaced).tokens(ids)

    def draft_without(self, last: int) -> tuple[int, ...]:
        """Return the draft after the accepted tokens if the ``last`` heard words are removed."""
        words = [word.text for word in self.words[: self.heard - last]]
        if not words:
            return ()
        prompt = self._direction.builder.build(words, self.accepted)
        most = self._direction.max_draft_tokens
        request = DraftRequest(prompt, most, self._direction.readout)
        return self._direction.engine.draft(request).token_ids


Build = Callable[[Sentence], Policy]
"""Creates the policy for a sentence."""


@dataclass(frozen=True, slots=True)
class Output:
    """Units of a sentence, and the number of source words heard when each unit was emitted."""

    units: tuple[str, ...] = ()
    heard: tuple[int, ...] = ()

    def adding(self, units: Sequence[str], heard: int) -> Output:
        """Append the units of one update."""
        return Output((*self.units, *units), (*self.heard, *[heard] * len(units)))

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
        sizes = [1 if spaced else len(unit.strip()) for unit in self.units]
        heard = [k for k, size in zip(self.heard, sizes, strict=True) for _ in range(size)]
        if not heard:
            return float(words)
        wanted = len(reference.split()) if spaced else len("".join(reference.split()))
        per_unit = words / max(len(heard), wanted)
        return sum(k - place * per_unit for place, k in enumerate(heard)) / len(heard)


def timed(words: Sequence[str]) -> tuple[Word, ...]:
    """Return words with times."""
    return tuple(Word(word, WORD_S * k, WORD_S * (k + 0.8)) for k, word in enumerate(words))


def replay(direction: Direction, build: Build, source: str, step: int) -> Output:
    """Translate a sentence that arrives ``step`` words at a time; its end is known at once."""
    sentence, output = Sentence(direction, source, build), Output()
    words = sentence.words
    for heard in range(step, len(words), step):
        sentence.heard = heard
        units = sentence.translator.update(SourceView(words[:heard], heard)).units
        output = output.adding(units, heard)
    sentence.heard = len(words)
    return output.adding(sentence.translator.complete(words).units, len(words))
