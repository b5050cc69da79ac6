"""Words of the micro world: their forms in every language, with synonyms."""

from __future__ import annotations

from typing import NamedTuple


class Gendered(NamedTuple):
    """A German or Italian noun."""

    singular: str
    plural: str
    gender: str

    def form(self, plural: bool) -> str:
        """Return singular or plural."""
        return self.plural if plural else self.singular


class Noun(NamedTuple):
    """A noun; ``kind`` says which verbs take it."""

    en: tuple[str, str]
    kind: str
    de: tuple[Gendered, ...]
    it: tuple[Gendered, ...]
    zh: tuple[str, ...]
    measure: str


class EnglishVerb(NamedTuple):
    """``write``, ``writes``, ``wrote``, ``written``."""

    base: str
    third: str
    past: str
    participle: str


class GermanVerb(NamedTuple):
    """Infinitive, third person and participle without the separable prefix, and the prefix."""

    infinitive: str
    third: str
    participle: str
    prefix: str


class ItalianVerb(NamedTuple):
    """Present tense (1sg, 3sg, 1pl, 3pl), participle, infinitive."""

    present: tuple[str, ...]
    participle: str
    infinitive: str


class Verb(NamedTuple):
    """A sense of a verb."""

    en: EnglishVerb
    particle: str  # of a phrasal verb; else empty
    objects: tuple[str, ...]  # kinds of nouns that it takes
    waits: bool  # the object decides the translation: other senses have the same English form
    de: tuple[GermanVerb, ...]
    it: tuple[ItalianVerb, ...]
    zh: tuple[str, ...]


class Plain(NamedTuple):
    """A word whose form does not change; ``kinds`` says where it fits."""

    en: str
    de: tuple[str, ...]
    it: tuple[str, ...]
    zh: tuple[str, ...]
    kinds: tuple[str, ...] = ()


class Modal(NamedTuple):
    """A modal verb: forms for 1sg, 3sg, 1pl, 3pl."""

    en: str
    de: tuple[str, ...]
    it: tuple[str, ...]
    zh: str
