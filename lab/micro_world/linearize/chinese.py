"""Chinese: relative clauses before the noun, adverbs and adjuncts before the verb, measures."""

from lab.micro_world.forms import Plain
from lab.micro_world.linearize.writer import END, Token, Writer
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence

FRONTED = ("when", "if")
"""Conjunctions whose clause may come first, whatever the English order."""


class Chinese(Writer):
    """Writes trees in Chinese, in a drawn wording."""

    code = "zh"

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Chinese words and marks."""
        return [*self._front(sentence), *self._clauses(sentence), Token("。", (END,), glue=True)]

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            word = self.word(sentence.opener)
            bare = word._replace(text=word.text.rstrip("，"))
            return [bare, Token("，", word.ids)] if word.text.endswith("，") else [bare]
        if not sentence.when:
            return []
        when, ids = sentence.when, (sentence.when.direction.id,)
        last = Token("前" if when.direction.value == "ago" else "后", ids)
        return [self.usual(when.number), self.word(when.unit), last, Token("，", ids)]

    def _clauses(self, sentence: Sentence) -> list[Token]:
        first, second, link = sentence.main, sentence.second, sentence.link
        if not second or not link:
            return self._clause(first)
        if sentence.order == "until":
            words = [Token("直到", (link.id,)), *self._clause(second)]
            return [*words, Token("，", (words[-1].ids[0],)), *self._clause(first, until=link.id)]
        if sentence.order == "that":
            whether = [self.usual(link)] if link.value.zh[0] else []
            return [*self._clause(first), *self._clause(second, whether=whether)]
        if sentence.order == "before" or (link.value.en in FRONTED and self.chance(0.2)):
            words = self._linked(link, second)
            return [*words, Token("，", (words[-1].ids[0],)), *self._clause(first)]
        return [*self._clause(first), Token("，", (link.id,)), *self._linked(link, second)]

    def _linked(self, link: Leaf[Plain], node: Clause) -> list[Token]:
        """Conjunction before its clause; 当 closes with 时."""
        word = self.word(link)
        closing = [word._replace(text="时")] if word.text == "当" else []
        return [word, *self._clause(node), *closing]

    def _clause(
        self,
        node: Clause,
        gap: str = "",
        until: int | None = None,
        whether: list[Token] | None = None,
    ) -> list[Token]:
        """Subject, adverb, not, modal, adjunct, verb group, object."""
        words = [] if gap == "subject" else self._noun_phrase(node.subject)
        adverb = [self.word(node.adverb)] if node.adverb else []
        manner = node.adverb and node.adverb.value.kinds[0] == "manner"
        if adverb and not gap and not manner and self.chance(0.2):
            words, adverb = adverb + words, []
        words += whether or []
        if node.tense == "copula" and node.auxiliary and node.predicate:
            return [*words, Token("很", (node.auxiliary.id,)), self.word(node.predicate)]
        negated = self._not(node, until)
        words += [*negated, *adverb] if until is not None or manner else [*adverb, *negated]
        words += self._adjunct(node)
        assert node.verb
        words.append(Token(self.pick(node.verb), node.depends))
        done = node.tense in ("perfect", "past") and not (node.negation and until is None)
        if done and node.verb.value.objects:
            words.append(Token("了", ((node.auxiliary or node.verb).id,)))
        return words + self._noun_phrase(node.object) if node.object else words

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
            word = self.usual(simple)
            return [word] if word.text else []
        assert node.noun
        words: list[Token] = []
        if node.relative:
            words += self._clause(node.relative.clause, node.relative.gap)
            words.append(Token("的", (node.relative.pronoun.id,)))
        if node.whole and node.of:
            words += [*self._noun_phrase(node.whole), Token("的", (node.of.id,))]
        words += self._determiner(node, node.noun.value.measure)
        for adjective in node.adjectives:
            text = self.pick(adjective)
            bare = len(text) == 1 and self.chance(0.2)
            words.append(Token(text if bare else text + "的", (adjective.id,)))
        return [*words, Token(self.pick(node.noun), node.depends)]

    def _determiner(self, node: NounPhrase, measure: str) -> list[Token]:
        if node.number:
            word = self.usual(node.number)
        elif node.determiner and node.determiner.value.zh[0]:
            word = self.word(node.determiner)
        else:
            return []
        counts = node.number or word.text in ("一", "这", "每")
        return [word, Token(measure, (*node.depends, *word.ids))] if counts else [word]
