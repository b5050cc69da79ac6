"""German noun phrases: articles and endings depend on the noun, so they wait for it too."""

from __future__ import annotations

from collections.abc import Callable

from lab.micro_world.linearize.token import Token
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.morphology import german_dative, german_genitive
from lab.micro_world.tree import Clause, NounPhrase

DER = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
EIN_ENDING = {
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
DIESER_ENDING = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
EIN_WORDS = ("ein", "kein", "unser", "mein", "sein", "ihr")
STRONG = {"nom": "e", "acc": "e", "dat": "en", "gen": "er"}
"""Adjectives of plurals without article; also the endings of einige and viele."""

Subordinate = Callable[[Clause, str], list[Token]]


class NounPhrases:
    """Writes noun phrases; ``subordinate`` writes their relative clauses."""

    def __init__(self, wording: Wording, subordinate: Subordinate) -> None:
        self._wording, self._subordinate = wording, subordinate

    def phrase(self, node: NounPhrase, case: str, negation: int | None = None) -> list[Token]:
        """Return a noun phrase in a case; a ``negation`` melts with its article."""
        simple = node.pronoun or node.name
        if simple:
            return [Token(simple.value.de[0], (simple.id,))]
        assert node.noun
        noun, ids = self._wording.pick(node.noun.value.de), node.depends
        gender = "p" if node.plural else noun.gender
        text = noun.form(node.plural)
        if node.plural and case == "dat":
            text = german_dative(text)
        if case == "gen" and not node.plural:
            text = german_genitive(text, gender)
        words = []
        kind = node.determiner.value.de[0] if node.determiner else ""
        if node.determiner:
            kind = "kein" if negation is not None else kind
            melted = () if negation is None else (negation,)
            form = article(kind, gender, case)
            words.append(Token(form, (node.determiner.id, *ids, *melted)))
        if node.number:
            words.append(Token(node.number.value.de[0], (node.number.id,)))
        for adjective in node.adjectives:
            stem = self._wording.pick(adjective.value.de)
            words.append(Token(stem + ending(kind, gender, case), (adjective.id, *ids)))
        words.append(Token(text, ids))
        if node.whole:
            words += self.phrase(node.whole, "gen")
        if node.relative:
            pronoun = node.relative.pronoun.id
            words.append(Token(",", (pronoun,), glue=True))
            relative_case = "nom" if node.relative.gap == "subject" else "acc"
            words.append(Token(DER[relative_case][gender], (pronoun, *ids)))
            words += self._subordinate(node.relative.clause, node.relative.gap)
            words.append(Token(",", (words[-1].ids[0],), glue=True))
        return words


def article(kind: str, gender: str, case: str) -> str:
    """Inflect a determiner."""
    if kind == "der":
        return DER[case][gender]
    if kind in ("dieser", "jeder"):
        return kind.removesuffix("er") + DIESER_ENDING[case][gender]
    if kind in ("einige", "viele"):
        return kind.removesuffix("e") + STRONG[case]
    return kind + EIN_ENDING[case][gender]


def ending(kind: str, gender: str, case: str) -> str:
    """Adjective: weak after der-words, mixed after ein-words, strong in other plurals."""
    if kind in ("", "einige", "viele"):
        return STRONG[case]
    if gender == "p" or case in ("dat", "gen") or (case == "acc" and gender == "m"):
        return "en"
    if kind in EIN_WORDS:
        return {"m": "er", "f": "e", "n": "es"}[gender]
    return "e"
