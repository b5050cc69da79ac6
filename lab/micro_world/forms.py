"""Words of the micro world: their forms in every language, with synonyms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gendered:
    """A German or Italian noun."""

    singular: str
    plural: str
    gender: str

    def form(self, plural: bool) -> str:
        """Return singular or plural."""
        return self.plural if plural else self.singular


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; ``kind`` says which verbs take it."""

    en: tuple[str, str]
    kind: str
    de: tuple[Gendered, ...]
    it: tuple[Gendered, ...]
    zh: tuple[str, ...]
    measure: str


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """``write``, ``writes``, ``wrote``, ``written``."""

    base: str
    third: str
    past: str
    participle: str


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """Infinitive, third person and participle without the separable prefix, and the prefix."""

    infinitive: str
    third: str
    participle: str
    prefix: str


@dataclass(frozen=True, slots=True)
class ItalianVerb:
    """Present tense (1sg, 3sg, 1pl, 3pl), participle, infinitive."""

    present: tuple[str, str, str, str]
    participle: str
    infinitive: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A sense of a verb."""

    en: EnglishVerb
    particle: str  # of a phrasal verb; else empty
    objects: tuple[str, ...]  # kinds of nouns that it takes
    waits: bool  # the object decides the translation: other senses have the same English form
    de: tuple[GermanVerb, ...]
    it: tuple[ItalianVerb, ...]
    zh: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """A word whose form does not change; ``kinds`` says where it fits."""

    en: str
    de: tuple[str, ...]
    it: tuple[str, ...]
    zh: tuple[str, ...]
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb: forms for 1sg, 3sg, 1pl, 3pl."""

    en: str
    de: tuple[str, ...]
    it: tuple[str, ...]
    zh: str
