"""Language-neutral trees of sentences.

Every leaf with an English word carries an identity. The linearizers attach these identities to the
words of each language, which gives the gold word alignment by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from lab.micro_world.forms import Modal, Noun, Plain, Verb

T = TypeVar("T")


class Leaf(NamedTuple, Generic[T]):
    """A lexical choice with its identity inside the sentence."""

    id: int
    value: T


@dataclass
class NounPhrase:
    """A pronoun, a name, or determiner/number + adjectives + noun (+ relative clause or "of")."""

    pronoun: Leaf[Plain] | None = None
    name: Leaf[Plain] | None = None
    noun: Leaf[Noun] | None = None
    plural: bool = False
    determiner: Leaf[Plain] | None = None
    number: Leaf[Plain] | None = None
    adjectives: list[Leaf[Plain]] = field(default_factory=list)
    of: Leaf[str] | None = None
    whole: NounPhrase | None = None
    relative: Relative | None = None

    @property
    def person(self) -> int:
        """Agreement slot: 0 = 1sg, 1 = 3sg, 2 = 1pl, 3 = 3pl."""
        if self.pronoun:
            # The other pronouns are he, she and it.
            return {"I": 0, "we": 2, "they": 3}.get(self.pronoun.value.en, 1)
        if self.plural:
            return 3
        return 1

    @property
    def depends(self) -> tuple[int, ...]:
        """Identities that decide which word the noun is."""
        assert self.noun
        if self.whole:
            return (self.noun.id, self.whole.depends[0])
        return (self.noun.id,)

    def inside(self) -> Iterator[NounPhrase]:
        """Yield itself and the noun phrases in it."""
        yield self
        if self.whole:
            yield from self.whole.inside()
        if self.relative:
            yield from self.relative.clause.noun_phrases()


@dataclass
class Clause:
    """Subject, verb group and complements.

    ``tense`` is ``present``, ``past``, ``perfect``, ``modal`` or ``copula``; ``auxiliary`` holds
    have, be, a modal, or do where there is a ``negation``. A particle stands behind the verb, or
    behind the object where ``particle_late``; an adverb before the verb where ``adverb_early``.
    """

    subject: NounPhrase
    tense: str
    verb: Leaf[Verb] | None = None
    auxiliary: Leaf[str] | None = None
    modal: Leaf[Modal] | None = None
    negation: Leaf[str] | None = None
    particle: Leaf[str] | None = None
    particle_late: bool = False
    object: NounPhrase | None = None
    predicate: Leaf[Plain] | None = None
    adverb: Leaf[Plain] | None = None
    adverb_early: bool = False
    preposition: Leaf[Plain] | None = None
    adjunct: NounPhrase | None = None

    @property
    def depends(self) -> tuple[int, ...]:
        """Identities that decide what the verb means: itself, a particle, the object's noun."""
        assert self.verb
        ids = [self.verb.id]
        if self.particle:
            ids.append(self.particle.id)
        if self.verb.value.waits and self.object and self.object.noun:
            ids.append(self.object.noun.id)
        return tuple(ids)

    def noun_phrases(self) -> Iterator[NounPhrase]:
        """Yield every noun phrase."""
        for phrase in (self.subject, self.object, self.adjunct):
            if phrase:
                yield from phrase.inside()


class Relative(NamedTuple):
    """Relative clause; the gap is the subject or the object of ``clause``."""

    pronoun: Leaf[str]
    gap: str
    clause: Clause


class When(NamedTuple):
    """Three years ago, three years later."""

    number: Leaf[Plain]
    unit: Leaf[Noun]
    direction: Leaf[str]


@dataclass
class Sentence:
    """One or two clauses.

    ``order`` is ``single``, ``after``, ``before``, ``that``, ``and`` or ``until``.
    """

    order: str
    main: Clause
    opener: Leaf[Plain] | None = None
    when: When | None = None
    link: Leaf[Plain] | None = None
    second: Clause | None = None
