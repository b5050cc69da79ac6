"""Words of the micro world, read from ``words/``: one entry per line.

Columns are separated by ``|``, synonyms by `` / `` (in Chinese by ``/``), forms by spaces. Regular
forms are omitted, see ``forms``.
"""

import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from lab.micro_world.forms import (
    Gendered,
    Modal,
    Noun,
    Plain,
    Verb,
    english_verb,
    german_verb,
    italian_verb,
)

THINGS = ("text", "idea", "device", "place", "nature", "animal", "art", "food", "group", "event")


def _rows(name: str) -> list[list[str]]:
    """Read a word list; return the columns of each line."""
    path = Path(__file__).parent / "words" / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("|") for line in lines]


def _synonyms(column: str) -> list[list[str]]:
    """Return the forms of each synonym in a column."""
    return [synonym.split() for synonym in column.split(" / ")]


def _nouns(rows: list[list[str]]) -> list[Noun]:
    nouns = []
    for en, kind, de, it, zh in rows:
        singular, plural = en.split()
        words, measure = zh.split()
        noun = Noun(
            en=(singular, plural),
            kind=kind,
            de=_gendered(de),
            it=_gendered(it),
            zh=tuple(words.split("/")),
            measure=measure,
        )
        nouns.append(noun)
    return nouns


def _gendered(column: str) -> tuple[Gendered, ...]:
    """Return the synonyms of a German or Italian noun."""
    return tuple(Gendered(*forms) for forms in _synonyms(column))


def _verbs(name: str, *, waits: bool = False, phrasal: bool = False) -> list[Verb]:
    verbs = []
    for en, objects, de, it, zh in _rows(name):
        forms = en.split()
        particle = ""
        if phrasal:
            particle = forms.pop()
        verb = Verb(
            en=english_verb(forms),
            particle=particle,
            objects=_object_kinds(objects),
            waits=waits,
            de=tuple(map(german_verb, _synonyms(de))),
            it=tuple(map(italian_verb, _synonyms(it))),
            zh=tuple(zh.split("/")),
        )
        verbs.append(verb)
    return verbs


def _object_kinds(column: str) -> tuple[str, ...]:
    """Return the kinds of nouns that a verb takes: ``any`` is every thing, ``-`` is none."""
    if column == "any":
        return THINGS
    if column == "-":
        return ()
    return tuple(column.split(","))


def _plain(name: str) -> list[Plain]:
    words = []
    for en, de, it, zh, *optional in _rows(name):
        kinds: tuple[str, ...] = ()
        if optional:
            kinds = tuple(optional[0].split(","))
        word = Plain(
            en=en,
            de=tuple(de.split(" / ")),
            it=tuple(it.split(" / ")),
            zh=tuple(zh.split("/")),
            kinds=kinds,
        )
        words.append(word)
    return words


def _name(text: str, zh: str) -> Plain:
    """Return a name, which is written alike in English, German and Italian."""
    return Plain(en=text, de=(text,), it=(text,), zh=(zh,))


def _times() -> list[Noun]:
    """Return the units of time, which Chinese counts without a measure word."""
    rows = []
    for en, de, it, zh in _rows("times"):
        zh_and_measure = f"{zh} -"
        rows.append([en, "time", de, it, zh_and_measure])
    return _nouns(rows)


def _modals() -> list[Modal]:
    modals = []
    for en, de, it, zh in _rows("modals"):
        modal = Modal(en=en, de=tuple(de.split()), it=tuple(it.split()), zh=zh)
        modals.append(modal)
    return modals


def _spellings() -> list[tuple[Plain, Plain]]:
    pairs = []
    for texts, zh in _rows("rare_names"):
        common, rare = texts.split()
        pairs.append((_name(common, zh), _name(rare, zh)))
    return pairs


def _forms_with_ending(verbs: list[Verb]) -> dict[str, str]:
    bases = {}
    for verb in verbs:
        for form in verb.en:
            if form.startswith(verb.en.base):
                bases[form] = verb.en.base
    return bases


NOUNS = _nouns(_rows("things") + _rows("persons"))
RELATIONAL = _nouns(_rows("relational"))
"""Nouns whose translation depends on the noun after "of"; ``kind`` is the kind of that noun."""
TIME = _times()
TRANSITIVE = _verbs("verbs")
SENSES = _verbs("senses", waits=True)
PHRASAL = _verbs("phrasal", phrasal=True)
CLAUSAL = _verbs("clausal")
QUESTIONING = _verbs("questioning")
ADJECTIVE = _plain("adjectives")
ADVERB = _plain("adverbs")
OPENER = _plain("openers")
LINK = _plain("links")
PREPOSITION = _plain("prepositions")
NUMBER = _plain("numbers")
DETERMINER = {word.en: word for word in _plain("determiners")}
COMPLEMENTIZER = {word.en: word for word in _plain("complementizers")}
MODAL = _modals()
PRONOUN = _plain("pronouns")
NAME = [_name(text, zh) for text, zh in _rows("names")]
SPELLINGS = _spellings()
"""Names that sound alike: the common spelling and the rare one."""

_ALL_VERBS = TRANSITIVE + SENSES + PHRASAL + CLAUSAL + QUESTIONING
_ALL_NAMES = [*NAME, *chain.from_iterable(SPELLINGS)]
NAMES = [name.en for name in _ALL_NAMES]

VERBS = _forms_with_ending(_ALL_VERBS)
"""Bases of the verb forms that only add an ending."""

FUNCTION_WORDS = "am is are have has do does did it not an who that of and until ago later whether"


def english_forms() -> list[str]:
    """Return every English word of the grammar, in lower case and without marks."""
    words = set(FUNCTION_WORDS.split())
    words.update(DETERMINER)
    for noun in NOUNS + RELATIONAL + TIME:
        words.update(noun.en)
    for verb in _ALL_VERBS:
        words.update(verb.en)
        if verb.particle:
            words.add(verb.particle)
    for modal in MODAL:
        words.add(modal.en)
    for table in (ADJECTIVE, ADVERB, OPENER, LINK, PREPOSITION, NUMBER, PRONOUN, _ALL_NAMES):
        for word in table:
            words.add(word.en)
    return sorted({text.strip(",").lower() for text in words})


def drawn_names(rng: random.Random, words: Sequence[str]) -> list[str]:
    """Draw the names of a talk: names that occur, and other names in one of their spellings."""
    bare_words = {word.strip(".,") for word in words}
    said = bare_words.intersection(NAMES)
    names = sorted(said)
    # A talk's list has no second spelling of a name that occurs.
    free_pairs = [pair for pair in SPELLINGS if said.isdisjoint(name.en for name in pair)]
    count = rng.randint(1, 4)
    names += [rng.choice(pair).en for pair in rng.sample(free_pairs, count)]
    names += [name.en for name in rng.sample(NAME, 2) if name.en not in said]
    rng.shuffle(names)
    return names
