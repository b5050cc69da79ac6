"""German noun phrases: articles and endings depend on the noun, so they wait for it too."""

from __future__ import annotations

from lab.micro_world.linearize.token import Token, comma
from lab.micro_world.linearize.writer import INFLECTION, Writer
from lab.micro_world.morphology import german_dative, german_genitive
from lab.micro_world.tree import Clause, NounPhrase

FORMS = INFLECTION["de"]
DER, STRONG = FORMS["der"], FORMS["strong"]


class GermanNouns(Writer):
    """Writes noun phrases, with the relative clauses of a German writer."""

    code = "de"

    def phrase(self, node: NounPhrase, case: str, negation: int | None = None) -> list[Token]:
        """Return a noun phrase in a case; a ``negation`` melts with its article."""
        simple = node.pronoun or node.name
        if simple:
            return [self.usual(simple)]
        assert node.noun
        noun, ids = self.pick(node.noun), node.depends
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
            words.append(self.usual(node.number))
        for adjective in node.adjectives:
            form = self.pick(adjective) + ending(kind, gender, case)
            words.append(Token(form, (adjective.id, *ids)))
        words.append(Token(text, ids))
        if node.whole:
            words += self.phrase(node.whole, "gen")
        return words + self._relative(node, gender)

    def _relative(self, node: NounPhrase, gender: str) -> list[Token]:
        if not node.relative:
            return []
        pronoun = node.relative.pronoun.id
        form = DER["nom" if node.relative.gap == "subject" else "acc"][gender]
        words = [comma(pronoun), Token(form, (pronoun, *node.depends))]
        words += self.subordinate(node.relative.clause, node.relative.gap)
        return [*words, comma(words[-1].ids[0])]

    def subordinate(self, node: Clause, gap: str = "") -> list[Token]:
        """Return a subordinate clause without the subject or object that is its ``gap``."""
        raise NotImplementedError


def article(kind: str, gender: str, case: str) -> str:
    """Inflect a determiner."""
    if kind == "der":
        return str(DER[case][gender])
    if kind in ("dieser", "jeder"):
        return str(kind.removesuffix("er") + FORMS["dieser"][case][gender])
    if kind in ("einige", "viele"):
        return str(kind.removesuffix("e") + STRONG[case])
    return str(kind + FORMS["ein"][case][gender])


def ending(kind: str, gender: str, case: str) -> str:
    """Adjective: weak after der-words, mixed after ein-words, strong in other plurals."""
    if kind in ("", "einige", "viele"):
        return str(STRONG[case])
    if gender == "p" or case in ("dat", "gen") or (case == "acc" and gender == "m"):
        return "en"
    if kind in FORMS["ein_words"]:
        return {"m": "er", "f": "e", "n": "es"}[gender]
    return "e"
