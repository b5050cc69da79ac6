"""Chinese: relative clauses before the noun, adverbs and adjuncts before the verb, measures."""

from lab.micro_world.forms import Plain
from lab.micro_world.linearize.writer import END, Token, Writer
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence

FRONTED = ("when", "if")
"""Conjunctions whose clause may come first, whatever the English order."""
PAST = ("perfect", "past")
"""Tenses that 了 or 没有 marks."""


class Chinese(Writer):
    """Writes trees in Chinese, in a drawn wording."""

    code = "zh"

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the Chinese words and marks."""
        return [*self._front(sentence), *self._clauses(sentence), Token("。", (END,), glue=True)]

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            opener = self.word(sentence.opener)
            words = [opener._replace(text=opener.text.rstrip("，"))]
            if opener.text.endswith("，"):
                words.append(Token("，", opener.ids))
            return words
        if not sentence.when:
            return []
        when = sentence.when
        direction = "后"
        if when.direction.value == "ago":
            direction = "前"
        ids = (when.direction.id,)
        number, unit = self.usual(when.number), self.word(when.unit)
        return [number, unit, Token(direction, ids), Token("，", ids)]

    def _clauses(self, sentence: Sentence) -> list[Token]:
        first, second, link = sentence.main, sentence.second, sentence.link
        if not second or not link:
            return self._clause(first)
        if sentence.order == "until":
            words = [Token("直到", (link.id,)), *self._clause(second)]
            words.append(_comma_after(words[-1]))
            words += self._clause(first, until=link.id)
            return words
        if sentence.order == "that":
            # 是否 ("whether") stands inside its clause, and "that" has no word.
            whether = []
            if link.value.zh[0]:
                whether.append(self.usual(link))
            return [*self._clause(first), *self._clause(second, whether=whether)]
        if sentence.order == "before" or (link.value.en in FRONTED and self.chance(0.2)):
            words = self._linked(link, second)
            words.append(_comma_after(words[-1]))
            words += self._clause(first)
            return words
        return [*self._clause(first), Token("，", (link.id,)), *self._linked(link, second)]

    def _linked(self, link: Leaf[Plain], node: Clause) -> list[Token]:
        """Conjunction before its clause; 当 closes with 时."""
        word = self.word(link)
        words = [word, *self._clause(node)]
        if word.text == "当":
            words.append(word._replace(text="时"))
        return words

    def _clause(
        self,
        node: Clause,
        gap: str = "",
        until: int | None = None,
        whether: list[Token] | None = None,
    ) -> list[Token]:
        """Subject, adverb, not, modal, adjunct, verb group, object."""
        words: list[Token] = []
        if gap != "subject":
            words += self._noun_phrase(node.subject)
        adverb: list[Token] = []
        manner = False
        if node.adverb:
            adverb.append(self.word(node.adverb))
            manner = node.adverb.value.kinds[0] == "manner"
        if adverb and not gap and not manner and self.chance(0.2):
            words = adverb + words
            adverb = []
        words += whether or []
        if node.tense == "copula" and node.auxiliary and node.predicate:
            return [*words, Token("很", (node.auxiliary.id,)), self.word(node.predicate)]
        negation = self._negation_and_modal(node, until)
        if until is not None or manner:
            words += [*negation, *adverb]
        else:
            words += [*adverb, *negation]
        words += self._adjunct(node)
        assert node.verb
        words.append(Token(self.pick(node.verb), node.depends))
        # 没有 already says that a negated action is past; 才 ("not until") does not.
        past = node.tense in PAST and not (node.negation and until is None)
        if past and node.verb.value.objects:
            tense_carrier = node.auxiliary or node.verb
            words.append(Token("了", (tense_carrier.id,)))
        if node.object:
            words += self._noun_phrase(node.object)
        return words

    def _negation_and_modal(self, node: Clause, until: int | None) -> list[Token]:
        words = []
        if node.negation and until is not None:
            words.append(Token("才", (until, node.negation.id)))
        elif node.negation:
            negation = "不"
            if node.tense in PAST:
                negation = "没有"
            words.append(Token(negation, (node.negation.id,)))
        if node.modal:
            words.append(Token(node.modal.value.zh, (node.modal.id,)))
        return words

    def _adjunct(self, node: Clause) -> list[Token]:
        if not node.preposition or not node.adjunct:
            return []
        # 在 ... 里: some prepositions have a second part, which closes the noun phrase.
        before, _, after = node.preposition.value.zh[0].partition(" ")
        words = [Token(before, (node.preposition.id,)), *self._noun_phrase(node.adjunct)]
        if after:
            noun = words[-1].ids[0]
            words.append(Token(after, (node.preposition.id, noun)))
        return words

    def _noun_phrase(self, node: NounPhrase) -> list[Token]:
        """Relative clause or owner, determiner or number with measure, adjective, noun."""
        simple = node.pronoun or node.name
        if simple:
            word = self.usual(simple)
            # "It" has no word in Chinese.
            if not word.text:
                return []
            return [word]
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
            # Adjectives of one character may stand without 的.
            if len(text) > 1 or not self.chance(0.2):
                text += "的"
            words.append(Token(text, (adjective.id,)))
        words.append(Token(self.pick(node.noun), node.depends))
        return words

    def _determiner(self, node: NounPhrase, measure: str) -> list[Token]:
        if node.number:
            word = self.usual(node.number)
        elif node.determiner and node.determiner.value.zh[0]:
            word = self.word(node.determiner)
        else:
            return []
        # Possessives and words for several things take no measure word.
        if node.number or word.text in ("一", "这", "每"):
            return [word, Token(measure, (*node.depends, *word.ids))]
        return [word]


def _comma_after(token: Token) -> Token:
    """Return a comma that is aligned like the word before it."""
    return Token("，", (token.ids[0],))
