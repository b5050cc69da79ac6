"""Italian noun phrases."""

from __future__ import annotations

from collections.abc import Callable

from lab.micro_world.forms import Gendered
from lab.micro_world.linearize.token import Token
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.tree import Clause, NounPhrase

VOWELS = "aeiouàèéìòù"
DI = {
    "il": "del",
    "lo": "dello",
    "l'": "dell'",
    "la": "della",
    "i": "dei",
    "gli": "degli",
    "le": "delle",
}
HARD = ("bianc", "stanc", "antic", "ricc", "fresc", "secc")
"""Stems that keep their sound: bianchi."""

WriteClause = Callable[[Clause, str], list[Token]]


class NounPhrases:
    """Writes noun phrases; ``clause`` writes their relative clauses."""

    def __init__(self, wording: Wording, clause: WriteClause) -> None:
        self._wording, self._clause = wording, clause
        self._chosen: dict[int, Gendered] = {}

    def noun(self, node: NounPhrase) -> Gendered:
        """Return the noun that was drawn for ``node``; predicates agree with it."""
        assert node.noun
        if node.noun.id not in self._chosen:
            self._chosen[node.noun.id] = self._wording.pick(node.noun.value.it)
        return self._chosen[node.noun.id]

    def phrase(self, node: NounPhrase, of: int | None = None) -> list[Token]:
        """Article, number, noun, adjective, "of" or relative clause; ``of`` melts with articles."""
        simple = node.pronoun or node.name
        if simple:
            return [Token(simple.value.it[0], (simple.id,))]
        assert node.noun
        noun, ids = self.noun(node), node.depends
        before, after = self._adjectives(node, noun)
        core = [*before, Token(noun.form(node.plural), ids), *after]
        words = self._determiner(node, noun, core[0].text, of)
        if words and words[-1].text.endswith("'"):
            elided, first = words.pop(), core.pop(0)
            core.insert(0, Token(elided.text + first.text, (*first.ids, *elided.ids[:1])))
        if node.number:
            words.append(Token(node.number.value.it[0], (node.number.id,)))
        words += core
        if node.of and node.whole:
            words += self.phrase(node.whole, node.of.id)
        if node.relative:
            words.append(Token("che", (node.relative.pronoun.id,)))
            words += self._clause(node.relative.clause, node.relative.gap)
        return words

    def _adjectives(self, node: NounPhrase, noun: Gendered) -> tuple[list[Token], list[Token]]:
        before: list[Token] = []
        after: list[Token] = []
        for adjective in node.adjectives:
            text = self._wording.pick(adjective.value.it)
            form = inflect(text.rstrip("+"), noun.gender, node.plural)
            token = Token(form, (adjective.id, *node.depends))
            movable = text.endswith("+") and self._wording.chance(0.6)
            (before if movable else after).append(token)
        return before, after

    def _determiner(
        self, node: NounPhrase, noun: Gendered, following: str, of: int | None
    ) -> list[Token]:
        if not node.determiner:
            return []
        kind = node.determiner.value.it[0]
        parts = determiner(kind, noun.gender, node.plural, following)
        ids = (node.determiner.id, *node.depends)
        if of is None:
            return [Token(part, ids) for part in parts]
        if parts[0] in DI:
            return [
                Token(DI[parts[0]], (of, *ids)),
                *(Token(part, ids) for part in parts[1:]),
            ]
        return [Token("di", (of,)), *(Token(part, ids) for part in parts)]


def determiner(kind: str, gender: str, plural: bool, following: str) -> list[str]:
    """Choose the form by gender, number and the first sound of the word that follows."""
    vowel = following[0] in VOWELS
    impure = following[0] == "z" or (following[0] == "s" and following[1] not in VOWELS)
    if kind == "il":
        return [article(gender, plural, vowel=vowel, impure=impure)]
    if kind == "un":
        if gender == "f":
            return ["un'" if vowel else "una"]
        return ["uno" if impure else "un"]
    if kind == "ogni":
        return ["ogni"]
    if kind == "questo" and not plural and vowel:
        return ["quest'"]
    if kind in ("questo", "alcuni", "molti"):
        stem = kind[:-1] + "o"
        return [inflect(stem, gender, plural)]
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
    if gender == "m" and plural:
        return {"mio": "miei", "suo": "suoi"}.get(kind, kind[:-1] + "i")
    return kind[:-1] + {(False, "m"): "o", (False, "f"): "a", (True, "f"): "e"}[(plural, gender)]


def inflect(adjective: str, gender: str, plural: bool) -> str:
    """Endings in -o take four forms, endings in -e two, others one."""
    stem, ending = adjective[:-1], adjective[-1]
    if ending == "e":
        return stem + ("i" if plural else "e")
    if ending != "o":
        return adjective
    if stem.endswith("c") and plural:
        if gender == "f":
            return stem + "he"
        return stem + ("hi" if stem in HARD else "i")
    if stem.endswith("g") and plural:
        return stem + ("he" if gender == "f" else "hi")
    if stem.endswith("i") and plural:
        return stem[:-1] + ("ie" if gender == "f" else "i")
    vowel = {(False, "m"): "o", (False, "f"): "a", (True, "m"): "i", (True, "f"): "e"}
    return stem + vowel[(plural, gender)]
