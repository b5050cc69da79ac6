"""Words of the micro world, read from ``words/``: one entry a line.

Columns are separated by ``|``, synonyms by `` / `` (in Chinese by ``/``), forms by spaces. Regular
forms are left out, see ``morphology``.
"""

from __future__ import annotations

from pathlib import Path

from lab.micro_world.forms import Gendered, Modal, Noun, Plain, Verb
from lab.micro_world.morphology import english_verb, german_verb, italian_verb

THINGS = ("text", "idea", "device", "place", "nature", "animal", "art", "food", "group", "event")


def _rows(name: str) -> list[list[str]]:
    path = Path(__file__).parent / "words" / f"{name}.txt"
    return [line.split("|") for line in path.read_text(encoding="utf-8").splitlines()]


def _synonyms(column: str) -> list[list[str]]:
    return [synonym.split() for synonym in column.split(" / ")]


def _noun(row: list[str]) -> Noun:
    en, kind, de, it, zh = row
    singular, plural = en.split()
    german = tuple(Gendered(*forms) for forms in _synonyms(de))
    italian = tuple(Gendered(*forms) for forms in _synonyms(it))
    words, measure = zh.split()
    return Noun((singular, plural), kind, german, italian, tuple(words.split("/")), measure)


def _verb(row: list[str], pasts: dict[str, str], *, waits: bool, phrasal: bool) -> Verb:
    en, objects, de, it, zh = row
    forms = en.split()
    particle = forms.pop() if phrasal else ""
    kinds = {"any": THINGS, "-": ()}.get(objects, tuple(objects.split(",")))
    return Verb(
        english_verb(forms, pasts),
        particle,
        kinds,
        waits,
        tuple(german_verb(synonym) for synonym in _synonyms(de)),
        tuple(italian_verb(synonym) for synonym in _synonyms(it)),
        tuple(zh.split("/")),
    )


def _verbs(name: str, *, waits: bool = False, phrasal: bool = False) -> list[Verb]:
    pasts = dict(line[0].split() for line in _rows("pasts"))
    return [_verb(row, pasts, waits=waits, phrasal=phrasal) for row in _rows(name)]


def _plain(name: str) -> list[Plain]:
    words = []
    for en, de, it, zh, *kinds in _rows(name):
        kind = tuple(kinds[0].split(",")) if kinds else ()
        words.append(
            Plain(en, tuple(de.split(" / ")), tuple(it.split(" / ")), tuple(zh.split("/")), kind)
        )
    return words


def _modal(row: list[str]) -> Modal:
    en, de, it, zh = row
    return Modal(en, tuple(de.split()), tuple(it.split()), zh)


def _name(text: str, zh: str) -> Plain:
    return Plain(text, (text,), (text,), (zh,))


NOUNS = [_noun(row) for row in _rows("things") + _rows("persons")]
RELATIONAL = [_noun(row) for row in _rows("relational")]
"""Nouns whose translation depends on the noun after "of"; ``kind`` is the kind of that noun."""
TIME = [_noun([row[0], "time", row[1], row[2], f"{row[3]} -"]) for row in _rows("times")]
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
MODAL = [_modal(row) for row in _rows("modals")]
PRONOUN = _plain("pronouns")
NAME = [_name(*row) for row in _rows("names")]
SPELLINGS = [tuple(_name(text, row[1]) for text in row[0].split()) for row in _rows("rare_names")]
"""Names that sound alike: the common spelling and the rare one."""

FUNCTION_WORDS = "am is are have has do does did not an who that of and until ago later whether"


def english_forms() -> list[str]:
    """Return every English word of the grammar, in lower case and without marks."""
    words = {*FUNCTION_WORDS.split(), *DETERMINER, *(modal.en for modal in MODAL)}
    for noun in NOUNS + RELATIONAL + TIME:
        words |= set(noun.en)
    for verb in TRANSITIVE + SENSES + PHRASAL + CLAUSAL + QUESTIONING:
        words |= {verb.en.base, verb.en.third, verb.en.past, verb.en.participle}
        words |= {verb.particle} - {""}
    spellings = [name for pair in SPELLINGS for name in pair]
    for table in (ADJECTIVE, ADVERB, OPENER, LINK, PREPOSITION, NUMBER, NAME, PRONOUN, spellings):
        words |= {plain.en for plain in table}
    return sorted({word.strip(",").lower() for word in words})
