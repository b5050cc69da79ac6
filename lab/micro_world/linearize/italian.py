"""Italian: most adjectives follow the noun, articles go by sound, subject pronouns are dropped."""

from __future__ import annotations

from lab.micro_world.linearize.italian_nouns import NounPhrases, inflect
from lab.micro_world.linearize.token import END, Token, capitalize, split
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.tree import Clause, Sentence

BE = ("sono", "è", "siamo", "sono")
HAVE = ("ho", "ha", "abbiamo", "hanno")


class Italian:
    """Writes trees in Italian, in a drawn wording."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._nouns = NounPhrases(wording, self._clause)

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Italian words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        words = self._front(sentence)
        if sentence.order == "before" and second and link:
            words += split(self._wording.pick(link.value.it), link.id)
            words += self._clause(second)
            words.append(Token(",", (words[-1].ids[0],), glue=True))
            words += self._clause(first)
        elif sentence.order == "until" and second and link:
            words += self._clause(first, until=link.id)
            assert first.negation
            words += [Token("solo", (link.id, first.negation.id)), Token("quando", (link.id,))]
            words += self._clause(second)
        else:
            words += self._clause(first)
            if second and link:
                words += split(self._wording.pick(link.value.it), link.id)
                words += self._clause(second)
        return [*capitalize(words), Token(".", (END,), glue=True)]

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            return split(self._wording.pick(sentence.opener.value.it), sentence.opener.id)
        if not sentence.when:
            return []
        when = sentence.when
        closing = "fa" if when.direction.value == "ago" else "dopo"
        return [
            Token(when.number.value.it[0], (when.number.id,)),
            Token(when.unit.value.it[0].plural, (when.unit.id,)),
            Token(closing, (when.direction.id,)),
        ]

    def _clause(self, node: Clause, gap: str = "", until: int | None = None) -> list[Token]:
        """Subject, not, verb group, object, adjunct, adverb; "until" takes the negation away."""
        words: list[Token] = []
        dropped: tuple[int, ...] = ()
        pronoun = node.subject.pronoun
        if pronoun and (not pronoun.value.it[0] or self._wording.chance(0.3)):
            dropped = (pronoun.id,)
        elif gap != "subject":
            words += self._nouns.phrase(node.subject)
        if node.negation and until is None:
            words.append(Token("non", (node.negation.id, *dropped)))
        group = self._verb_group(node, dropped)
        if until is not None and node.negation:
            group = [Token(t.text, (*t.ids, until)) for t in group[:1]] + group[1:]
        if node.tense == "copula":
            return words + group
        adverb = []
        if node.adverb:
            adverb = split(self._wording.pick(node.adverb.value.it), node.adverb.id)
        early = node.adverb_early or self._wording.chance(0.15)
        words += [*group, *adverb] if early else group
        if node.object:
            words += self._nouns.phrase(node.object)
        if node.preposition and node.adjunct:
            words += split(node.preposition.value.it[0], node.preposition.id)
            words += self._nouns.phrase(node.adjunct)
        return words if early else words + adverb

    def _verb_group(self, node: Clause, dropped: tuple[int, ...]) -> list[Token]:
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary and node.predicate:
            noun = self._nouns.noun(node.subject)
            text = self._wording.pick(node.predicate.value.it).rstrip("+")
            agreed = inflect(text, noun.gender, node.subject.plural)
            is_ = Token(BE[person], (node.auxiliary.id, *dropped))
            return [is_, Token(agreed, (node.predicate.id, *node.subject.depends))]
        assert node.verb
        verb, ids = self._wording.pick(node.verb.value.it), node.depends
        if node.tense in ("perfect", "past"):
            auxiliary = node.auxiliary.id if node.auxiliary else node.verb.id
            return [Token(HAVE[person], (auxiliary, *dropped)), Token(verb.participle, ids)]
        if node.modal:
            form = Token(node.modal.value.it[person], (node.modal.id, *dropped))
            return [form, Token(verb.infinitive, ids)]
        return [Token(verb.present[person], (*ids, *dropped))]
