"""Italian noun phrases."""

from __future__ import annotations

import random

from lab.micro_world.forms import Gendered
from lab.micro_world.linearize.token import Token
from lab.micro_world.linearize.writer import INFLECTION, Writer
from lab.micro_world.tree import Clause, NounPhrase

FORMS = INFLECTION["it"]
VOWELS = "aeiouàèéìòù"
ENDINGS = {(False, "m"): "o", (False, "f"): "a", (True, "m"): "i", (True, "f"): "e"}


class ItalianNouns(Writer):
    """Writes noun phrases, with the relative clauses of an Italian writer."""

    code = "it"

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._chosen: dict[int, Gendered] = {}

    def noun(self, node: NounPhrase) -> Gendered:
        """Return the noun that was drawn for ``node``; predicates agree with it."""
        assert node.noun
        if node.noun.id not in self._chosen:
            self._chosen[node.noun.id] = self.pick(node.noun)
        return self._chosen[node.noun.id]

    def phrase(self, node: NounPhrase, of: int | None = None) -> list[Token]:
        """Article, number, noun, adjective, "of" or relative clause; ``of`` melts with articles."""
        simple = node.pronoun or node.name
        if simple:
            return [self.usual(simple)]
        noun = self.noun(node)
        before, after = self._adjectives(node, noun)
        core = [*before, Token(noun.form(node.plural), node.depends), *after]
        words = self._determiner(node, noun, core[0].text, of)
        if words and words[-1].text.endswith("'"):
            elided, first = words.pop(), core.pop(0)
            core.insert(0, Token(elided.text + first.text, (*first.ids, *elided.ids[:1])))
        if node.number:
            words.append(self.usual(node.number))
        words += core
        if node.of and node.whole:
            words += self.phrase(node.whole, node.of.id)
        if node.relative:
            words.append(Token("che", (node.relative.pronoun.id,)))
            words += self.clause(node.relative.clause, node.relative.gap)
        return words

    def _adjectives(self, node: NounPhrase, noun: Gendered) -> tuple[list[Token], list[Token]]:
        before: list[Token] = []
        after: list[Token] = []
        for adjective in node.adjectives:
            text = self.pick(adjective)
            form = inflect(text.rstrip("+"), noun.gender, node.plural)
            movable = text.endswith("+") and self.chance(0.6)
            (before if movable else after).append(Token(form, (adjective.id, *node.depends)))
        return before, after

    def _determiner(
        self, node: NounPhrase, noun: Gendered, following: str, of: int | None
    ) -> list[Token]:
        if not node.determiner:
            return []
        kind = node.determiner.value.it[0]
        first, *more = determiner(kind, noun.gender, node.plural, following)
        ids = (node.determiner.id, *node.depends)
        owned = [Token(part, ids) for part in more]
        if of is None:
            return [Token(first, ids), *owned]
        if first in FORMS["di"]:
            return [Token(FORMS["di"][first], (of, *ids)), *owned]
        return [Token("di", (of,)), Token(first, ids), *owned]

    def clause(self, node: Clause, gap: str = "", until: int | None = None) -> list[Token]:
        """Return a clause without the subject or object that is its ``gap``."""
        raise NotImplementedError


def determiner(kind: str, gender: str, plural: bool, following: str) -> list[str]:
    """Choose the form by gender, number and the first sound of the word that follows."""
    vowel = following[0] in VOWELS
    impure = following[0] == "z" or (following[0] == "s" and following[1] not in VOWELS)
    if kind == "il":
        return [article(gender, plural, vowel=vowel, impure=impure)]
    if kind == "un" and gender == "f":
        return ["un'" if vowel else "una"]
    if kind == "un":
        return ["uno" if impure else "un"]
    if kind == "ogni":
        return ["ogni"]
    if kind == "questo" and not plural and vowel:
        return ["quest'"]
    if kind in ("questo", "alcuni", "molti"):
        return [inflect(kind[:-1] + "o", gender, plural)]
    owned = article(gender, plural, vowel=False, impure=False)
    return [owned, possessive(kind, gender, plural)]


def article(gender: str, plural: bool, *, vowel: bool, impure: bool) -> str:
    """Return the definite article."""
    if gender == "f":
        return "le" if plural else ("l'" if vowel else "la")
    if plural:
        return "gli" if vowel or impure else "i"
    return "l'" if vowel else ("lo" if impure else "il")


def possessive(kind: str, gender: str, plural: bool) -> str:
    """Inflect mio, suo, nostro; loro stays."""
    if kind == "loro":
        return kind
    irregular = {"mio": "miei", "suo": "suoi"} if (plural, gender) == (True, "m") else {}
    return irregular.get(kind, kind[:-1] + ENDINGS[plural, gender])


def inflect(adjective: str, gender: str, plural: bool) -> str:
    """Endings in -o take four forms, endings in -e two, others one."""
    stem, ending = adjective[:-1], adjective[-1]
    if ending == "e":
        return stem + ("i" if plural else "e")
    if ending != "o":
        return adjective
    soft = stem.endswith("c") and gender == "m" and stem not in FORMS["hard"]
    if plural and stem.endswith(("c", "g")) and not soft:
        stem += "h"
    if plural and stem.endswith("i"):
        return stem[:-1] + ("ie" if gender == "f" else "i")
    return stem + ENDINGS[plural, gender]
