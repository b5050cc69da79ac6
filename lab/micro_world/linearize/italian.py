"""Italian: adjectives mostly follow the noun, articles depend on sound, pronouns are dropped."""

import random

from lab.micro_world.forms import Gendered
from lab.micro_world.linearize.writer import INFLECTION, Token, Writer, comma, finish
from lab.micro_world.tree import Clause, NounPhrase, Sentence

FORMS = INFLECTION["it"]
VOWELS = "aeiouàèéìòù"
ENDINGS = {(False, "m"): "o", (False, "f"): "a", (True, "m"): "i", (True, "f"): "e"}


class Italian(Writer):
    """Writes trees in Italian, in a drawn wording."""

    code = "it"

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._chosen: dict[int, Gendered] = {}

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Italian words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        words = self._front(sentence)
        if not second or not link:
            words += self._clause(first)
        elif sentence.order == "before":
            words += [*self.words(link), *self._clause(second)]
            words += [comma(words[-1].ids[0]), *self._clause(first)]
        elif sentence.order == "until" and first.negation:
            words += self._clause(first, until=link.id)
            words += [Token("solo", (link.id, first.negation.id)), Token("quando", (link.id,))]
            words += self._clause(second)
        else:
            words += [*self._clause(first), *self.words(link), *self._clause(second)]
        return finish(words)

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            return self.words(sentence.opener)
        if not sentence.when:
            return []
        when = sentence.when
        unit = Token(when.unit.value.it[0].plural, (when.unit.id,))
        closing = "fa" if when.direction.value == "ago" else "dopo"
        return [self.usual(when.number), unit, Token(closing, (when.direction.id,))]

    def _clause(self, node: Clause, gap: str = "", until: int | None = None) -> list[Token]:
        """Subject, not, verb group, object, adjunct, adverb; "until" removes the negation."""
        words: list[Token] = []
        dropped: tuple[int, ...] = ()
        pronoun = node.subject.pronoun
        if pronoun and (not pronoun.value.it[0] or (pronoun.value.en != "it" and self.chance(0.3))):
            dropped = (pronoun.id,)
        elif gap != "subject":
            words += self._phrase(node.subject)
        if node.negation and until is None:
            words.append(Token("non", (node.negation.id, *dropped)))
        group = self._verb_group(node, dropped)
        if until is not None and node.negation:
            group[0] = group[0]._replace(ids=(*group[0].ids, until))
        if node.tense == "copula":
            return words + group
        adverb = self.words(node.adverb) if node.adverb else []
        early = node.adverb_early or self.chance(0.15)
        words += [*group, *adverb] if early else group
        if node.object:
            words += self._phrase(node.object)
        if node.preposition and node.adjunct:
            words += [self.usual(node.preposition), *self._phrase(node.adjunct)]
        return words if early else words + adverb

    def _verb_group(self, node: Clause, dropped: tuple[int, ...]) -> list[Token]:
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary and node.predicate:
            text, pronoun = self.pick(node.predicate).rstrip("+"), node.subject.pronoun
            if pronoun:
                gender = "f" if pronoun.value.it[0] == "lei" else "m"
            else:
                gender = self._noun(node.subject).gender
            agreed = inflect(text, gender, node.subject.plural)
            be = Token(FORMS["be"][person], (node.auxiliary.id, *dropped))
            depends = (pronoun.id,) if pronoun else node.subject.depends
            return [be, Token(agreed, (node.predicate.id, *depends))]
        assert node.verb
        verb, ids = self.pick(node.verb), node.depends
        if node.tense in ("perfect", "past"):
            auxiliary = node.auxiliary or node.verb
            have = Token(FORMS["have"][person], (auxiliary.id, *dropped))
            return [have, Token(verb.participle, ids)]
        if node.modal:
            form = Token(node.modal.value.it[person], (node.modal.id, *dropped))
            return [form, Token(verb.infinitive, ids)]
        return [Token(verb.present[person], (*ids, *dropped))]

    def _noun(self, node: NounPhrase) -> Gendered:
        """Return the noun that was drawn for ``node``; predicates agree with it."""
        assert node.noun
        if node.noun.id not in self._chosen:
            self._chosen[node.noun.id] = self.pick(node.noun)
        return self._chosen[node.noun.id]

    def _phrase(self, node: NounPhrase, of: int | None = None) -> list[Token]:
        """Article (merged with ``of``), number, noun, adjective, "of" or relative clause."""
        simple = node.pronoun or node.name
        if simple:
            return [self.usual(simple)]
        noun = self._noun(node)
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
            words += self._phrase(node.whole, node.of.id)
        if node.relative:
            words.append(Token("che", (node.relative.pronoun.id,)))
            words += self._clause(node.relative.clause, node.relative.gap)
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


def determiner(kind: str, gender: str, plural: bool, following: str) -> list[str]:
    """Choose the form by gender, number and the first sound of the word that follows."""
    vowel = following[0] in VOWELS
    impure = following[0] == "z" or (following[0] == "s" and following[1] not in VOWELS)
    forms = FORMS["determiners"][kind][gender + "sp"[plural]]
    return str(forms[(vowel + 2 * impure) % len(forms)]).split()


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
