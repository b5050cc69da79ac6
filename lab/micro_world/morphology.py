"""Regular forms of verbs and German nouns."""

from __future__ import annotations

from lab.micro_world.forms import EnglishVerb, GermanVerb, ItalianVerb

INSEPARABLE = ("be", "ver", "er", "ent", "zer", "über", "unter")
VOWELS = "aeiou"


def english_verb(given: list[str], pasts: dict[str, str]) -> EnglishVerb:
    """Return all forms from the base, or from base, third person and participle.

    ``pasts`` maps participles to the simple past, where they differ.
    """
    base = given[0]
    if len(given) == 3:
        third, participle = given[1:]
    elif base.endswith("y") and base[-2] not in VOWELS:
        third, participle = base[:-1] + "ies", base[:-1] + "ied"
    else:
        third = base + ("es" if base.endswith(("s", "sh", "ch", "x", "z")) else "s")
        participle = base + ("d" if base.endswith("e") else "ed")
    return EnglishVerb(base, third, pasts.get(participle, participle), participle)


def german_verb(given: list[str]) -> GermanVerb:
    """Return all forms from the infinitive, or from infinitive, third person and participle.

    A hyphen separates the prefix from the infinitive; the other forms go without it.
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
        raise ValueError(f"give all forms of {infinitive!r}: only -are and -ire are regular here")
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
