"""Words of the micro world in every language, with synonyms and regular forms."""

from typing import NamedTuple

INSEPARABLE = ("be", "ver", "er", "ent", "zer", "über", "unter")
VOWELS = "aeiou"


class Gendered(NamedTuple):
    """A German or Italian noun."""

    singular: str
    plural: str
    gender: str

    def form(self, plural: bool) -> str:
        """Return singular or plural."""
        return self.plural if plural else self.singular


class Noun(NamedTuple):
    """A noun; ``kind`` determines which verbs take it."""

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
    particle: str  # particle of a phrasal verb, or empty
    objects: tuple[str, ...]  # kinds of nouns that it takes
    waits: bool  # the object decides the translation: other senses have the same English form
    de: tuple[GermanVerb, ...]
    it: tuple[ItalianVerb, ...]
    zh: tuple[str, ...]


class Plain(NamedTuple):
    """A word with one form; ``kinds`` determines where it is used."""

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


def english_verb(given: list[str]) -> EnglishVerb:
    """Return all forms from the base, or as given."""
    if len(given) == 4:
        return EnglishVerb(*given)
    (base,) = given
    if base.endswith("y") and base[-2] not in VOWELS:
        third, past = base[:-1] + "ies", base[:-1] + "ied"
    else:
        third = base + ("es" if base.endswith(("s", "sh", "ch", "x", "z")) else "s")
        past = base + ("d" if base.endswith("e") else "ed")
    return EnglishVerb(base, third, past, past)


def german_verb(given: list[str]) -> GermanVerb:
    """Return all forms from the infinitive, or from infinitive, third person and participle.

    A hyphen separates the prefix from the infinitive; the other forms have no prefix.
    """
    prefix, _, infinitive = given[0].rpartition("-")
    if len(given) == 3:
        return GermanVerb(infinitive, given[1], given[2], prefix)
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    hard = stem.endswith(("t", "d", "fn", "chn", "gn", "tm"))
    third = stem + ("et" if hard else "t")
    bare = stem.endswith("ier") or infinitive.startswith(INSEPARABLE)
    return GermanVerb(infinitive, third, third if bare else "ge" + third, prefix)


def italian_verb(given: list[str]) -> ItalianVerb:
    """Return 1sg, 3sg, 1pl, 3pl, participle and infinitive, from the infinitive or as given."""
    if len(given) == 6:
        first, third, we, they, participle, infinitive = given
        return ItalianVerb((first, third, we, they), participle, infinitive)
    (infinitive,) = given
    stem, ending = infinitive[:-3], infinitive[-3:]
    if ending == "ire":
        forms = (stem + "isco", stem + "isce", stem + "iamo", stem + "iscono")
        return ItalianVerb(forms, stem + "ito", infinitive)
    if ending != "are":
        raise ValueError(f"give all forms of {infinitive!r}: only -are and -ire verbs are regular")
    soft = "" if stem.endswith("i") else ("hi" if stem.endswith(("c", "g")) else "i")
    forms = (stem + "o", stem + "a", stem + soft + "amo", stem + "ano")
    return ItalianVerb(forms, stem + "ato", infinitive)


def german_genitive(noun: str, gender: str) -> str:
    """Return the genitive singular of a noun that is not weak."""
    if gender == "f":
        return noun
    if noun.endswith("nis"):
        return noun + "ses"
    if noun.endswith(("s", "ß", "x", "z")):
        return noun + "es"
    return noun + "s"


def german_dative(plural: str) -> str:
    """Return the dative plural."""
    return plural if plural.endswith(("n", "s")) else plural + "n"
