"""Words of the micro world, read from ``words/``: one entry per line.

Columns are separated by ``|``, synonyms by `` / `` (in Chinese by ``/``), forms by spaces. Regular
forms are omitted, see ``forms``.
"""

import random
from collections.abc import Sequence
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
    path = Path(__file__).parent / "words" / f"{name}.txt"
    return [line.split("|") for line in path.read_text(encoding="utf-8").splitlines()]


def _synonyms(column: str) -> list[list[str]]:
    return [synonym.split() for synonym in column.split(" / ")]


def _nouns(rows: list[list[str]]) -> list[Noun]:
    nouns = []
    for en, kind, de, it, zh in rows:
        singular, plural = en.split()
        german = tuple(Gendered(*forms) for forms in _synonyms(de))
        italian = tuple(Gendered(*forms) for forms in _synonyms(it))
        words, measure = zh.split()
        chinese = tuple(words.split("/"))
        nouns.append(Noun((singular, plural), kind, german, italian, chinese, measure))
    return nouns


def _verbs(name: str, *, waits: bool = False, phrasal: bool = False) -> list[Verb]:
    verbs = []
    for en, objects, de, it, zh in _rows(name):
        forms = en.split()
        particle = forms.pop() if phrasal else ""
        kinds = {"any": THINGS, "-": ()}.get(objects, tuple(objects.split(",")))
        german = tuple(map(german_verb, _synonyms(de)))
        italian = tuple(map(italian_verb, _synonyms(it)))
        english, chinese = english_verb(forms), tuple(zh.split("/"))
        verbs.append(Verb(english, particle, kinds, waits, german, italian, chinese))
    return verbs


def _plain(name: str) -> list[Plain]:
    words = []
    for en, de, it, zh, *kinds in _rows(name):
        kind = tuple(kinds[0].split(",")) if kinds else ()
        synonyms = tuple(de.split(" / ")), tuple(it.split(" / ")), tuple(zh.split("/"))
        words.append(Plain(en, *synonyms, kind))
    return words


def _name(text: str, zh: str) -> Plain:
    return Plain(text, (text,), (text,), (zh,))


NOUNS = _nouns(_rows("things") + _rows("persons"))
RELATIONAL = _nouns(_rows("relational"))
"""Nouns whose translation depends on the noun after "of"; ``kind`` is the kind of that noun."""
TIME = _nouns([[en, "time", de, it, f"{zh} -"] for en, de, it, zh in _rows("times")])
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
MODAL = [Modal(en, tuple(de.split()), tuple(it.split()), zh) for en, de, it, zh in _rows("modals")]
PRONOUN = _plain("pronouns")
NAME = [_name(*row) for row in _rows("names")]
SPELLINGS = [tuple(_name(text, row[1]) for text in row[0].split()) for row in _rows("rare_names")]
"""Names that sound alike: the common spelling and the rare one."""

NAMES = [name.en for name in (*NAME, *(n for pair in SPELLINGS for n in pair))]

VERBS = {
    form: verb.en.base
    for verb in TRANSITIVE + SENSES + PHRASAL + CLAUSAL + QUESTIONING
    for form in verb.en
    if form.startswith(verb.en.base)
}
"""Verb forms that only add an ending."""

FUNCTION_WORDS = "am is are have has do does did it not an who that of and until ago later whether"


def english_forms() -> list[str]:
    """Return every English word of the grammar, in lower case and without marks."""
    words = {*FUNCTION_WORDS.split(), *DETERMINER, *(modal.en for modal in MODAL)}
    for noun in NOUNS + RELATIONAL + TIME:
        words |= set(noun.en)
    for verb in TRANSITIVE + SENSES + PHRASAL + CLAUSAL + QUESTIONING:
        words |= {*verb.en, verb.particle} - {""}
    spellings = [name for pair in SPELLINGS for name in pair]
    for table in (ADJECTIVE, ADVERB, OPENER, LINK, PREPOSITION, NUMBER, NAME, PRONOUN, spellings):
        words |= {plain.en for plain in table}
    return sorted({word.strip(",").lower() for word in words})


def drawn_names(rng: random.Random, words: Sequence[str]) -> list[str]:
    """Draw the names of a talk: names that occur, and other names in one of their spellings."""
    said = {word.strip(".,") for word in words} & set(NAMES)
    heard = {n.en for pair in SPELLINGS if said & {p.en for p in pair} for n in pair}
    free = [pair for pair in SPELLINGS if pair[0].en not in heard]
    more = [rng.choice(pair).en for pair in rng.sample(free, rng.randint(1, 4))]
    more += [name.en for name in rng.sample(NAME, 2) if name.en not in said]
    names = sorted(said) + more
    rng.shuffle(names)
    return names
