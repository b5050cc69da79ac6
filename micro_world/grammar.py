"""Random conference-talk sentences as language-neutral trees.

Every leaf that English says aloud carries an identity; the linearisers attach these identities to
the words of each language, so the gold word alignment falls out of the construction.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from micro_world import lexicon
from micro_world.lexicon import Noun, Plain, Verb

T = TypeVar("T")


@dataclass(frozen=True)
class Leaf(Generic[T]):
    """A lexical choice with its identity inside the sentence."""

    id: int
    value: T


@dataclass
class NounPhrase:
    """A pronoun, a name, or determiner/number + adjectives + noun (+ relative clause)."""

    pronoun: Leaf[Plain] | None = None
    name: Leaf[Plain] | None = None
    noun: Leaf[Noun] | None = None
    plural: bool = False
    determiner: Leaf[str] | None = None
    number: Leaf[Plain] | None = None
    adjectives: list[Leaf[Plain]] = field(default_factory=list)
    relative: Relative | None = None

    @property
    def person(self) -> int:
        """Agreement slot: 0 = 1sg, 1 = 3sg, 2 = 1pl, 3 = 3pl."""
        if self.pronoun:
            return {"I": 0, "we": 2, "they": 3}.get(self.pronoun.value.en, 1)
        return 3 if self.plural else 1


@dataclass
class Clause:
    """Subject, verb group and complements.

    ``tense`` is ``present``, ``perfect``, ``modal`` or ``copula``; ``auxiliary`` holds have, a
    modal or be.
    """

    subject: NounPhrase
    tense: str
    verb: Leaf[Verb] | None = None
    auxiliary: Leaf[str] | None = None
    object: NounPhrase | None = None
    predicate: Leaf[Plain] | None = None
    adverb: Leaf[Plain] | None = None
    preposition: Leaf[Plain] | None = None
    adjunct: NounPhrase | None = None


@dataclass
class Relative:
    """Relative clause; the gap is the subject or the object of ``clause``."""

    pronoun: Leaf[str]
    gap: str
    clause: Clause


@dataclass
class Sentence:
    """One or two clauses; ``order`` is ``single``, ``after``, ``before``, ``that`` or ``and``."""

    order: str
    main: Clause
    opener: Leaf[Plain] | None = None
    link: Leaf[Plain] | None = None
    second: Clause | None = None


class Grammar:
    """Samples sentences; the same seed gives the same sentences."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = 0

    def sentence(self) -> Sentence:
        """Draw one sentence."""
        self._next = 0
        roll = self._rng.random()
        opener = self._leaf(self._rng.choice(lexicon.OPENER)) if self._chance(0.22) else None
        if roll < 0.42:
            return Sentence("single", self._clause(heavy=True), opener)
        if roll < 0.60:
            link = self._leaf(self._rng.choice(lexicon.LINK))
            return Sentence("after", self._clause(), opener, link, self._clause())
        if roll < 0.74:
            link = self._leaf(self._rng.choice(lexicon.LINK))
            return Sentence("before", self._clause(), None, link, self._clause())
        if roll < 0.90:
            link = self._leaf(Plain("that", "dass", "che", ""))
            return Sentence("that", self._matrix(), opener, link, self._clause())
        link = self._leaf(Plain("and", "und", "e", "并且"))
        return Sentence("and", self._clause(), opener, link, self._clause())

    def _leaf(self, value: T) -> Leaf[T]:
        self._next += 1
        return Leaf(self._next, value)

    def _chance(self, p: float) -> bool:
        return self._rng.random() < p

    def _matrix(self) -> Clause:
        return Clause(
            self._noun_phrase("person", light=True),
            "present",
            self._leaf(self._rng.choice(lexicon.CLAUSAL)),
        )

    def _clause(self, *, heavy: bool = False) -> Clause:
        if self._chance(0.14):
            subject = self._noun_phrase("thing", noun_only=True)
            return Clause(
                subject,
                "copula",
                auxiliary=self._leaf("be"),
                predicate=self._leaf(self._rng.choice(lexicon.ADJECTIVE)),
            )
        relative_at = self._rng.choice(["subject", "object"]) if heavy and self._chance(0.5) else ""
        subject = self._noun_phrase("person", relative=relative_at == "subject")
        clause = self._predicate(subject)
        clause.object = self._noun_phrase("thing", relative=relative_at == "object", noun_only=True)
        if self._chance(0.3):
            adverbs = lexicon.ADVERB if clause.tense != "perfect" else lexicon.PAST_ADVERB
            clause.adverb = self._leaf(self._rng.choice(adverbs))
        elif self._chance(0.35):
            preposition = self._rng.choice(lexicon.PREPOSITION)
            clause.preposition = self._leaf(preposition)
            kind = "person" if preposition.en == "for" else "thing"
            clause.adjunct = self._noun_phrase(kind, light=True, noun_only=True)
        return clause

    def _predicate(self, subject: NounPhrase) -> Clause:
        tense = self._rng.choices(["present", "perfect", "modal"], [0.36, 0.36, 0.28])[0]
        auxiliary = None
        if tense == "perfect":
            auxiliary = self._leaf("have")
        elif tense == "modal":
            auxiliary = self._leaf(self._rng.choice(sorted(lexicon.MODALS)))
        return Clause(subject, tense, self._leaf(self._rng.choice(lexicon.TRANSITIVE)), auxiliary)

    def _noun_phrase(
        self, kind: str, *, light: bool = False, noun_only: bool = False, relative: bool = False
    ) -> NounPhrase:
        if not noun_only and not relative:
            roll = self._rng.random()
            if roll < 0.42:
                return NounPhrase(pronoun=self._leaf(self._rng.choice(lexicon.PRONOUN)))
            if roll < 0.52:
                return NounPhrase(name=self._leaf(self._rng.choice(lexicon.NAME)))
        phrase = NounPhrase(plural=self._chance(0.4))
        if phrase.plural and self._chance(0.3):
            phrase.number = self._leaf(self._rng.choice(lexicon.NUMBER))
        else:
            choices = (
                ["the", "the", "these", "our"]
                if phrase.plural
                else ["the", "the", "a", "this", "our"]
            )
            phrase.determiner = self._leaf(self._rng.choice(choices))
        if self._chance(0.2 if light else 0.35):
            phrase.adjectives = [self._leaf(self._rng.choice(lexicon.ADJECTIVE))]
        phrase.noun = self._leaf(self._rng.choice([n for n in lexicon.NOUNS if n.kind == kind]))
        if relative:
            phrase.relative = self._relative(kind, phrase.plural)
        return phrase

    def _relative(self, kind: str, plural: bool) -> Relative:
        pronoun = self._leaf("who" if kind == "person" else "that")
        if kind == "person":
            hole = NounPhrase(plural=plural)
            clause = self._predicate(hole)
            clause.object = self._noun_phrase("thing", light=True, noun_only=True)
            return Relative(pronoun, "subject", clause)
        return Relative(pronoun, "object", self._predicate(self._noun_phrase("person", light=True)))
