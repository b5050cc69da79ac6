"""German: verb second in main clauses, verb last in subordinate ones, case and gender."""

from __future__ import annotations

from lab.micro_world.forms import GermanVerb
from lab.micro_world.linearize import german_nouns
from lab.micro_world.linearize.token import END, Token, capitalize, merge_marks, split
from lab.micro_world.linearize.wording import Wording
from lab.micro_world.morphology import german_dative
from lab.micro_world.tree import Clause, NounPhrase, Sentence

BE = ("bin", "ist", "sind", "sind")
HAVE = ("habe", "hat", "haben", "haben")


class German:
    """Writes trees in German, in a drawn wording."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._nouns = german_nouns.NounPhrases(wording, self._subordinate)

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the German words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        front = self._front(sentence)
        if sentence.order == "before" and second and link:
            words = [Token(self._wording.pick(link.value.de), (link.id,))]
            words += self._subordinate(second)
            words.append(Token(",", (words[-1].ids[0],), glue=True))
            words += self._main(first, front=[Token("", ())])
        else:
            until = link.id if link and sentence.order == "until" else None
            words = self._main(first, front, until)
            if second and link:
                words += self._second(sentence.order, link.id, link.value.de, second)
        words = [word for word in words if word.text]
        return merge_marks([*capitalize(words), Token(".", (END,), glue=True)])

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            return split(self._wording.pick(sentence.opener.value.de), sentence.opener.id)
        if not sentence.when:
            return []
        when = sentence.when
        number, unit = when.number.value.de[0], when.unit.value.de[0].plural
        said, direction = when.number.id, when.direction.id
        if when.direction.value == "later":
            return [
                Token(number, (said, direction)),
                Token(unit, (when.unit.id,)),
                Token("später", (direction,)),
            ]
        return [
            Token("vor", (direction,)),
            Token(number, (said,)),
            Token(german_dative(unit), (when.unit.id, direction)),
        ]

    def _second(self, order: str, link: int, texts: tuple[str, ...], second: Clause) -> list[Token]:
        if order == "and":
            return [Token(texts[0], (link,)), *self._main(second)]
        words = [Token(",", (link,), glue=True)]
        if order == "until":
            return [*words, Token("wenn", (link,)), *self._subordinate(second)]
        if order == "that" and texts[0] == "dass" and self._wording.chance(0.1):
            return [*words, *self._main(second)]
        return [*words, Token(self._wording.pick(texts), (link,)), *self._subordinate(second)]

    def _main(
        self, node: Clause, front: list[Token] | None = None, until: int | None = None
    ) -> list[Token]:
        """Verb second; a filled front field sends the subject behind the verb."""
        finite, last = self._verb_group(node)
        front = list(front or [])
        adverb = self._adverb(node)
        if not front and adverb and self._wording.chance(0.08):
            front, adverb = adverb, []
        subject = self._nouns.phrase(node.subject, "nom")
        head = [*front, *finite, *subject] if front else [*subject, *finite]
        return [*head, *self._middle(node, adverb, until), *last]

    def _subordinate(self, node: Clause, gap: str = "") -> list[Token]:
        """Verb last."""
        finite, last = self._verb_group(node)
        subject = [] if gap == "subject" else self._nouns.phrase(node.subject, "nom")
        middle = self._middle(node, self._adverb(node), None)
        if last and finite and last[0].text in self._prefixes(node):
            joined = Token(last[0].text + finite[0].text, finite[0].ids)
            return [*subject, *middle, joined]
        return [*subject, *middle, *last, *finite]

    def _prefixes(self, node: Clause) -> set[str]:
        return {verb.prefix for verb in node.verb.value.de if verb.prefix} if node.verb else set()

    def _adverb(self, node: Clause) -> list[Token]:
        if not node.adverb:
            return []
        return split(self._wording.pick(node.adverb.value.de), node.adverb.id)

    def _middle(self, node: Clause, adverb: list[Token], until: int | None) -> list[Token]:
        """Adverb and object, not, adjunct, predicate."""
        known = [] if node.object is None else self._object(node, node.object, until)
        definite = node.object is not None and not node.object.number
        words = [*adverb, *known]
        if adverb and known and definite and self._wording.chance(0.12):
            words = [*known, *adverb]
        if node.negation and until is not None:
            words.append(Token("erst", (until, node.negation.id)))
        elif node.negation and not takes_kein(node):
            words.append(Token("nicht", (node.negation.id,)))
        if node.preposition and node.adjunct:
            word, case = node.preposition.value.de[0].split()
            words.append(Token(word, (node.preposition.id,)))
            words += self._nouns.phrase(node.adjunct, case)
        if node.predicate:
            words.append(Token(self._wording.pick(node.predicate.value.de), (node.predicate.id,)))
        return words

    def _object(self, node: Clause, phrase: NounPhrase, until: int | None) -> list[Token]:
        negation = node.negation.id if node.negation and until is None else None
        return self._nouns.phrase(phrase, "acc", negation if takes_kein(node) else None)

    def _verb_group(self, node: Clause) -> tuple[list[Token], list[Token]]:
        """Return the finite verb and what closes the clause."""
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary:
            return [Token(BE[person], (node.auxiliary.id,))], []
        assert node.verb
        verb, ids = self._wording.pick(node.verb.value.de), node.depends
        if node.tense in ("perfect", "past"):
            auxiliary = node.auxiliary.id if node.auxiliary else node.verb.id
            have = Token(HAVE[person], (auxiliary,))
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
