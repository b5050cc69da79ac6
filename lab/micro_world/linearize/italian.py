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
        direction = "dopo"
        if when.direction.value == "ago":
            direction = "fa"
        return [self.usual(when.number), unit, Token(direction, (when.direction.id,))]

    def _clause(self, node: Clause, gap: str = "", until: int | None = None) -> list[Token]:
        """Subject, not, verb group, object, adjunct, adverb; "until" removes the negation."""
        words: list[Token] = []
        dropped: tuple[int, ...] = ()
        if self._drops_subject(node.subject):
            assert node.subject.pronoun
            dropped = (node.subject.pronoun.id,)
        elif gap != "subject":
            words += self._phrase(node.subject)
        if node.negation and until is None:
            words.append(Token("non", (node.negation.id, *dropped)))
        verb_group = self._verb_group(node, dropped)
        if node.negation and until is not None:
            # Only "until" shows that no "non" precedes the verb.
            finite = verb_group[0]
            verb_group[0] = finite._replace(ids=(*finite.ids, until))
        words += verb_group
        if node.tense == "copula":
            return words
        adverb = self.optional_words(node.adverb)
        adverb_early = node.adverb_early or self.chance(0.15)
        if adverb_early:
            words += adverb
        if node.object:
            words += self._phrase(node.object)
        if node.preposition and node.adjunct:
            words += [self.usual(node.preposition), *self._phrase(node.adjunct)]
        if not adverb_early:
            words += adverb
        return words

    def _drops_subject(self, subject: NounPhrase) -> bool:
        """Return whether the form of the verb replaces the subject, as it may with pronouns."""
        if not subject.pronoun:
            return False
        pronoun = subject.pronoun.value
        # "I", "we" and "they" are never written.
        if not pronoun.it[0]:
            return True
        # The pronoun for "it" shows the gender, so it is always written.
        return pronoun.en != "it" and self.chance(0.3)

    def _verb_group(self, node: Clause, dropped: tuple[int, ...]) -> list[Token]:
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary and node.predicate:
            adjective = self.pick(node.predicate).rstrip("+")
            gender, depends = self._gender(node.subject)
            agreed = inflect(adjective, gender, node.subject.plural)
            be = Token(FORMS["be"][person], (node.auxiliary.id, *dropped))
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

    def _gender(self, subject: NounPhrase) -> tuple[str, tuple[int, ...]]:
        """Return the gender of a subject, and the identities that decide it."""
        if not subject.pronoun:
            return self._noun(subject).gender, subject.depends
        gender = "m"
        if subject.pronoun.value.it[0] == "lei":
            gender = "f"
        return gender, (subject.pronoun.id,)

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
            # L' and un' are written together with the next word.
            elided = words.pop()
            first = core[0]
            core[0] = Token(elided.text + first.text, (*first.ids, *elided.ids[:1]))
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
        """Return the adjectives before and after the noun; "+" marks those that may precede it."""
        before: list[Token] = []
        after: list[Token] = []
        for adjective in node.adjectives:
            text = self.pick(adjective)
            form = inflect(text.rstrip("+"), noun.gender, node.plural)
            token = Token(form, (adjective.id, *node.depends))
            if text.endswith("+") and self.chance(0.6):
                before.append(token)
            else:
                after.append(token)
        return before, after

    def _determiner(
        self, node: NounPhrase, noun: Gendered, following: str, of: int | None
    ) -> list[Token]:
        """Return an article with a possessive ("il mio") or another determiner, with "di"."""
        if not node.determiner:
            return []
        kind = node.determiner.value.it[0]
        texts = determiner(kind, noun.gender, node.plural, following)
        ids = (node.determiner.id, *node.depends)
        words = [Token(text, ids) for text in texts]
        if of is None:
            return words
        merged = FORMS["di"].get(texts[0])
        if merged:
            words[0] = Token(merged, (of, *ids))
            return words
        return [Token("di", (of,)), *words]


def determiner(kind: str, gender: str, plural: bool, following: str) -> list[str]:
    """Choose the form by gender, number and the first sound of the word that follows."""
    vowel = following[0] in VOWELS
    # An s with a consonant, and z: lo studente, lo zio.
    impure = following[0] == "z" or (following[0] == "s" and following[1] not in VOWELS)
    number = "p" if plural else "s"
    forms = FORMS["determiners"][kind][gender + number]
    sound = vowel + 2 * impure
    # Determiners with one form have it before every sound.
    text = str(forms[sound % len(forms)])
    return text.split()


def inflect(adjective: str, gender: str, plural: bool) -> str:
    """Endings in -o take four forms, endings in -e two, others one."""
    stem, ending = adjective[:-1], adjective[-1]
    if ending == "e" and plural:
        return stem + "i"
    if ending != "o":
        return adjective
    # Simpatico becomes simpatici, but bianco becomes bianchi, and lungo lunghi.
    soft = stem.endswith("c") and gender == "m" and stem not in FORMS["hard"]
    if plural and stem.endswith(("c", "g")) and not soft:
        stem += "h"
    if plural and gender == "m" and stem.endswith("i"):
        # Ampio becomes ampi, with one i.
        return stem
    return stem + ENDINGS[plural, gender]
