"""Italian: most adjectives follow the noun, articles go by sound, subject pronouns are dropped."""

from __future__ import annotations

from lab.micro_world.linearize.italian_nouns import FORMS, ItalianNouns, inflect
from lab.micro_world.linearize.token import Token, comma, finish
from lab.micro_world.tree import Clause, Sentence


class Italian(ItalianNouns):
    """Writes trees in Italian, in a drawn wording."""

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Italian words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        words = self._front(sentence)
        if not second or not link:
            words += self.clause(first)
        elif sentence.order == "before":
            words += [*self.words(link), *self.clause(second)]
            words += [comma(words[-1].ids[0]), *self.clause(first)]
        elif sentence.order == "until" and first.negation:
            words += self.clause(first, until=link.id)
            words += [Token("solo", (link.id, first.negation.id)), Token("quando", (link.id,))]
            words += self.clause(second)
        else:
            words += [*self.clause(first), *self.words(link), *self.clause(second)]
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

    def clause(self, node: Clause, gap: str = "", until: int | None = None) -> list[Token]:
        """Subject, not, verb group, object, adjunct, adverb; "until" takes the negation away."""
        words: list[Token] = []
        dropped: tuple[int, ...] = ()
        pronoun = node.subject.pronoun
        if pronoun and (not pronoun.value.it[0] or self.chance(0.3)):
            dropped = (pronoun.id,)
        elif gap != "subject":
            words += self.phrase(node.subject)
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
            words += self.phrase(node.object)
        if node.preposition and node.adjunct:
            words += [self.usual(node.preposition), *self.phrase(node.adjunct)]
        return words if early else words + adverb

    def _verb_group(self, node: Clause, dropped: tuple[int, ...]) -> list[Token]:
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary and node.predicate:
            noun = self.noun(node.subject)
            text = self.pick(node.predicate).rstrip("+")
            agreed = inflect(text, noun.gender, node.subject.plural)
            be = Token(FORMS["be"][person], (node.auxiliary.id, *dropped))
            return [be, Token(agreed, (node.predicate.id, *node.subject.depends))]
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
