"""German: verb second in main clauses, verb last in subordinate ones, case and gender."""

from __future__ import annotations

from lab.micro_world.forms import GermanVerb, Plain
from lab.micro_world.linearize.german_nouns import FORMS, GermanNouns
from lab.micro_world.linearize.token import Token, comma, finish, merge_marks
from lab.micro_world.morphology import german_dative
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence


class German(GermanNouns):
    """Writes trees in German, in a drawn wording."""

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the German words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        front = self._front(sentence)
        if sentence.order == "before" and second and link:
            words = [self.word(link), *self.subordinate(second)]
            words.append(comma(words[-1].ids[0]))
            words += self._main(first, front=[Token("", ())])
        else:
            until = link.id if link and sentence.order == "until" else None
            words = self._main(first, front, until)
            if second and link:
                words += self._second(sentence.order, link, second)
        return merge_marks(finish([word for word in words if word.text]))

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            return self.words(sentence.opener)
        if not sentence.when:
            return []
        when = sentence.when
        number, unit = self.usual(when.number), when.unit.value.de[0].plural
        direction = when.direction.id
        if when.direction.value == "later":
            late = number._replace(ids=(*number.ids, direction))
            return [late, Token(unit, (when.unit.id,)), Token("später", (direction,))]
        dative = Token(german_dative(unit), (when.unit.id, direction))
        return [Token("vor", (direction,)), number, dative]

    def _second(self, order: str, link: Leaf[Plain], second: Clause) -> list[Token]:
        if order == "and":
            return [self.usual(link), *self._main(second)]
        words = [comma(link.id)]
        if order == "until":
            return [*words, Token("wenn", (link.id,)), *self.subordinate(second)]
        if order == "that" and link.value.en == "that" and self.chance(0.1):
            return [*words, *self._main(second)]
        return [*words, self.word(link), *self.subordinate(second)]

    def _main(
        self, node: Clause, front: list[Token] | None = None, until: int | None = None
    ) -> list[Token]:
        """Verb second; a filled front field sends the subject behind the verb."""
        finite, last = self._verb_group(node)
        front = list(front or [])
        adverb = self.words(node.adverb) if node.adverb else []
        if not front and adverb and self.chance(0.08):
            front, adverb = adverb, []
        subject = self.phrase(node.subject, "nom")
        head = [*front, *finite, *subject] if front else [*subject, *finite]
        return [*head, *self._middle(node, adverb, until), *last]

    def subordinate(self, node: Clause, gap: str = "") -> list[Token]:
        """Verb last."""
        finite, last = self._verb_group(node)
        subject = [] if gap == "subject" else self.phrase(node.subject, "nom")
        middle = self._middle(node, self.words(node.adverb) if node.adverb else [], None)
        prefixes = {verb.prefix for verb in node.verb.value.de} if node.verb else set()
        if last and last[0].text in prefixes:
            joined = Token(last[0].text + finite[0].text, finite[0].ids)
            return [*subject, *middle, joined]
        return [*subject, *middle, *last, *finite]

    def _middle(self, node: Clause, adverb: list[Token], until: int | None) -> list[Token]:
        """Adverb and object, not, adjunct, predicate."""
        known = [] if node.object is None else self._object(node, node.object, until)
        definite = node.object is not None and not node.object.number
        words = [*adverb, *known]
        if adverb and known and definite and self.chance(0.12):
            words = [*known, *adverb]
        if node.negation and until is not None:
            words.append(Token("erst", (until, node.negation.id)))
        elif node.negation and not takes_kein(node):
            words.append(Token("nicht", (node.negation.id,)))
        if node.preposition and node.adjunct:
            word, case = node.preposition.value.de[0].split()
            words.append(Token(word, (node.preposition.id,)))
            words += self.phrase(node.adjunct, case)
        return [*words, self.word(node.predicate)] if node.predicate else words

    def _object(self, node: Clause, phrase: NounPhrase, until: int | None) -> list[Token]:
        negation = node.negation.id if node.negation and until is None else None
        return self.phrase(phrase, "acc", negation if takes_kein(node) else None)

    def _verb_group(self, node: Clause) -> tuple[list[Token], list[Token]]:
        """Return the finite verb and what closes the clause."""
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary:
            return [Token(FORMS["be"][person], (node.auxiliary.id,))], []
        assert node.verb
        verb, ids = self.pick(node.verb), node.depends
        if node.tense in ("perfect", "past"):
            have = Token(FORMS["have"][person], ((node.auxiliary or node.verb).id,))
            return [have], [Token(verb.prefix + verb.participle, ids)]
        if node.modal:
            form = Token(node.modal.value.de[person], (node.modal.id,))
            return [form], [Token(verb.prefix + verb.infinitive, ids)]
        last = [Token(verb.prefix, ids)] if verb.prefix else []
        return [Token(conjugate(verb, person), ids)], last


def takes_kein(node: Clause) -> bool:
    """Tell whether the negation melts with the article of the object."""
    determiner = node.object.determiner if node.object else None
    return bool(determiner and determiner.value.en == "a")


def conjugate(verb: GermanVerb, person: int) -> str:
    """Present tense."""
    if person == 0:
        if verb.infinitive == "wissen":
            return "weiß"
        ending = verb.infinitive.endswith("en")
        return verb.infinitive[:-1] if ending else verb.infinitive[:-1] + "e"
    return verb.third if person == 1 else verb.infinitive
