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
        if plural:
            return self.plural
        return self.singular


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


def english_verb(forms: list[str]) -> EnglishVerb:
    """Return a verb from its four forms, or from its base alone if it is regular."""
    if len(forms) == 4:
        return EnglishVerb(*forms)
    (base,) = forms
    third, past = base + "s", base + "ed"
    if base.endswith("y") and base[-2] not in VOWELS:
        third, past = base[:-1] + "ies", base[:-1] + "ied"
    elif base.endswith(("s", "sh", "ch", "x", "z")):
        third = base + "es"
    elif base.endswith("e"):
        past = base + "d"
    return EnglishVerb(base=base, third=third, past=past, participle=past)


def german_verb(forms: list[str]) -> GermanVerb:
    """Return a verb from infinitive, third person and participle, or from the infinitive alone.

    A hyphen separates the prefix from the infinitive; the other forms have no prefix.
    """
    prefix, _, infinitive = forms[0].rpartition("-")
    if len(forms) == 3:
        _, third, participle = forms
        return GermanVerb(infinitive, third, participle, prefix)
    stem = infinitive[:-1]
    if infinitive.endswith("en"):
        stem = infinitive[:-2]
    third = stem + "t"
    if stem.endswith(("t", "d", "fn", "chn", "gn", "tm")):
        third = stem + "et"
    # Participles of verbs in -ieren, or with an inseparable prefix, have no ge-.
    participle = "ge" + third
    if stem.endswith("ier") or infinitive.startswith(INSEPARABLE):
        participle = third
    return GermanVerb(infinitive, third, participle, prefix)


def italian_verb(forms: list[str]) -> ItalianVerb:
    """Return a verb from 1sg, 3sg, 1pl, 3pl, participle and infinitive, or from the infinitive.

    Raises:
        ValueError: the only form is an infinitive that ends neither in -are nor in -ire.
    """
    if len(forms) == 6:
        *present, participle, infinitive = forms
        return ItalianVerb(tuple(present), participle, infinitive)
    (infinitive,) = forms
    stem, ending = infinitive[:-3], infinitive[-3:]
    if ending == "ire":
        endings, participle = ("isco", "isce", "iamo", "iscono"), stem + "ito"
    elif ending == "are":
        endings, participle = ("o", "a", _soft_i(stem) + "amo", "ano"), stem + "ato"
    else:
        raise ValueError(f"give all forms of {infinitive!r}: only -are and -ire verbs are regular")
    return ItalianVerb(tuple(stem + end for end in endings), participle, infinitive)


def _soft_i(stem: str) -> str:
    """Return the i of -iamo after a stem: hi keeps a hard c or g, and a stem in i has its own."""
    if stem.endswith("i"):
        return ""
    if stem.endswith(("c", "g")):
        return "hi"
    return "i"


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
    if plural.endswith(("n", "s")):
        return plural
    return plural + "n"
