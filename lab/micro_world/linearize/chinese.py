"""Chinese: relative clauses before the noun, adverbs and adjuncts before the verb, measures."""

from __future__ import annotations

from lab.micro_world.linearize.token import END, Token
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.tree import Clause, NounPhrase, Sentence

FRONTED = ("when", "if")
"""Links whose clause may come first, wherever it stands in English."""


class Chinese:
    """Writes trees in Chinese, in a drawn wording."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Chinese words and marks."""
        return [*self._front(sentence), *self._clauses(sentence), Token("。", (END,), glue=True)]

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            text, ident = self._wording.pick(sentence.opener.value.zh), sentence.opener.id
            words = [Token(text.rstrip("，"), (ident,))]
            return [*words, Token("，", (ident,))] if text.endswith("，") else words
        if not sentence.when:
            return []
        when = sentence.when
        return [
            Token(when.number.value.zh[0], (when.number.id,)),
            Token(self._wording.pick(when.unit.value.zh), (when.unit.id,)),
            Token("前" if when.direction.value == "ago" else "后", (when.direction.id,)),
            Token("，", (when.direction.id,)),
        ]

    def _clauses(self, sentence: Sentence) -> list[Token]:
        first, second, link = sentence.main, sentence.second, sentence.link
        if not second or not link:
            return self._clause(first)
        texts = link.value.zh
        if sentence.order == "until":
            words = [Token("直到", (link.id,)), *self._clause(second)]
            return [*words, Token("，", (words[-1].ids[0],)), *self._clause(first, until=link.id)]
        if sentence.order == "that":
            whether = [Token(texts[0], (link.id,))] if texts[0] else []
            return [*self._clause(first), *self._clause(second, whether=whether)]
        front = sentence.order == "before"
        if front or (link.value.en in FRONTED and self._wording.chance(0.2)):
            words = self._linked(texts, link.id, second)
            return [*words, Token("，", (words[-1].ids[0],)), *self._clause(first)]
        return [
            *self._clause(first),
            Token("，", (link.id,)),
            *self._linked(texts, link.id, second),
        ]

    def _linked(self, texts: tuple[str, ...], ident: int, node: Clause) -> list[Token]:
        """Conjunction before its clause; 当 closes with 时."""
        text = self._wording.pick(texts)
        closing = [Token("时", (ident,))] if text == "当" else []
        return [Token(text, (ident,)), *self._clause(node), *closing]

    def _clause(
        self,
        node: Clause,
        gap: str = "",
        until: int | None = None,
        whether: list[Token] | None = None,
    ) -> list[Token]:
        """Subject, adverb, not, modal, adjunct, verb group, object."""
        words = [] if gap == "subject" else self._noun_phrase(node.subject)
        adverb = []
        if node.adverb:
            adverb = [Token(self._wording.pick(node.adverb.value.zh), (node.adverb.id,))]
            if not gap and node.adverb.value.kinds[0] != "manner" and self._wording.chance(0.2):
                words, adverb = adverb + words, []
        words += whether or []
        if node.tense == "copula" and node.auxiliary and node.predicate:
            words.append(Token("很", (node.auxiliary.id,)))
            text = self._wording.pick(node.predicate.value.zh)
            return [*words, Token(text, (node.predicate.id,))]
        first = until is None and node.adverb and node.adverb.value.kinds[0] != "manner"
        negated = self._not(node, until)
        words += [*adverb, *negated] if first else [*negated, *adverb]
        words += self._adjunct(node)
        assert node.verb
        words.append(Token(self._wording.pick(node.verb.value.zh), node.depends))
        done = node.tense in ("perfect", "past") and not (node.negation and until is None)
        if done and node.verb.value.objects:
            words.append(Token("了", (node.auxiliary.id if node.auxiliary else node.verb.id,)))
        if node.object:
            words += self._noun_phrase(node.object)
        return words

    def _not(self, node: Clause, until: int | None) -> list[Token]:
        words = []
        if node.negation and until is not None:
            words.append(Token("才", (until, node.negation.id)))
        elif node.negation:
            past = node.tense in ("perfect", "past")
            words.append(Token("没有" if past else "不", (node.negation.id,)))
        if node.modal:
            words.append(Token(node.modal.value.zh, (node.modal.id,)))
        return words

    def _adjunct(self, node: Clause) -> list[Token]:
        if not node.preposition or not node.adjunct:
            return []
        before, *after = node.preposition.value.zh[0].split()
        words = [Token(before, (node.preposition.id,)), *self._noun_phrase(node.adjunct)]
        return [*words, *(Token(text, (node.preposition.id, words[-1].ids[0])) for text in after)]

    def _noun_phrase(self, node: NounPhrase) -> list[Token]:
        """Relative clause or owner, determiner or number with measure, adjective, noun."""
        simple = node.pronoun or node.name
        if simple:
            return [Token(simple.value.zh[0], (simple.id,))]
        assert node.noun
        words: list[Token] = []
        if node.relative:
            words += self._clause(node.relative.clause, node.relative.gap)
            words.append(Token("的", (node.relative.pronoun.id,)))
        if node.whole and node.of:
            words += [*self._noun_phrase(node.whole), Token("的", (node.of.id,))]
        words += self._determiner(node, node.noun.value.measure)
        for adjective in node.adjectives:
            text = self._wording.pick(adjective.value.zh)
            bare = len(text) == 1 and self._wording.chance(0.2)
            words.append(Token(text if bare else text + "的", (adjective.id,)))
        return [*words, Token(self._wording.pick(node.noun.value.zh), node.depends)]

    def _determiner(self, node: NounPhrase, measure: str) -> list[Token]:
        if node.number:
            said, text = node.number.id, node.number.value.zh[0]
        elif node.determiner and node.determiner.value.zh[0]:
            said, text = node.determiner.id, self._wording.pick(node.determiner.value.zh)
        else:
            return []
        words = [Token(text, (said,))]
        if node.number or text in ("一", "这", "每"):
            words.append(Token(measure, (*node.depends, said)))
        return words
