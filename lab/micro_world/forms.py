"""What a word of the micro world is: its forms in every language, with their synonyms."""

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
    """Infinitive, third person and participle without the separable prefix, and that."""

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
    """A sense of a verb.

    Attributes:
        en: forms.
        particle: what makes the sense together with the verb, or an empty string.
        objects: kinds of nouns that it takes.
        waits: its translation depends on the object: other senses have the same English form.
        de: synonyms.
        it: synonyms.
        zh: synonyms.
    """

    en: EnglishVerb
    particle: str
    objects: tuple[str, ...]
    waits: bool
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
