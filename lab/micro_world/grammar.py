"""Draw random sentences of conference talks as language-neutral trees."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from lab.micro_world import lexicon
from lab.micro_world.forms import Noun, Plain, Verb
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Relative, Sentence, When

T = TypeVar("T")

POSSESSIVES = ("our", "my", "his", "her", "their")
DEFINITE = ("the", "the", "the", "this", *POSSESSIVES)
SINGULAR = ("the",) * 5 + ("a",) * 5 + ("this", "every", *POSSESSIVES)
PLURAL = ("the",) * 6 + ("these", "these", "some", "many", *POSSESSIVES)
RARE = 0.4
"""Probability of the rare spelling of a name that has two spellings."""
GERMAN_IT, ITALIAN_IT = {"m": "er", "f": "sie", "n": "es"}, {"m": "lui", "f": "lei"}
"""Pronouns that refer to a thing, by the gender of its noun; Chinese omits them."""


class Grammar:
    """Samples sentences; the same seed gives the same sentences."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = 0
        self._nouns = _by_kind(lexicon.NOUNS)
        self._relational = _by_kind(lexicon.RELATIONAL)

    def sentence(self) -> Sentence:
        """Draw one sentence."""
        self._next = 0
        roll = self._rng.random()
        opener = self._draw(lexicon.OPENER) if self._chance(0.18) else None
        if roll < 0.42:
            if not opener and self._chance(0.12):
                number, unit = self._draw(lexicon.NUMBER), self._draw(lexicon.TIME)
                when = When(number, unit, self._draw(("ago", "later")))
                return Sentence("single", self._clause(heavy=True, tense="past"), None, when)
            return Sentence("single", self._clause(heavy=True), opener)
        if roll < 0.56:
            first, link = self._clause(), self._draw(lexicon.LINK)
            return Sentence("after", first, opener, None, link, self._clause())
        if roll < 0.68:
            link, second = self._draw(lexicon.LINK), self._clause()
            return Sentence("before", self._clause(), None, None, link, second)
        if roll < 0.82:
            questioning = self._chance(0.3)
            first = self._matrix(lexicon.QUESTIONING if questioning else lexicon.CLAUSAL)
            link = self._leaf(lexicon.COMPLEMENTIZER["whether" if questioning else "that"])
            return Sentence("that", first, opener, None, link, self._clause())
        if roll < 0.90:
            first = self._clause(negated=True)
            link = self._leaf(Plain("until", (), (), ()))
            return Sentence("until", first, opener, None, link, self._clause(tense="perfect"))
        first = self._clause()
        link = self._leaf(Plain("and", ("und",), ("e",), ("并且", "而且")))
        return Sentence("and", first, opener, None, link, self._clause())

    def refer(self, sentence: Sentence, before: Sentence) -> None:
        """Make "it" the subject if the sentence ``before`` has one thing of one gender."""
        clauses = [clause for clause in (before.main, before.second) if clause]
        phrases = [phrase for clause in clauses for phrase in clause.noun_phrases()]
        nouns = [item.noun.value for item in phrases if item.noun and not item.plural]
        things = [noun for noun in nouns if noun.kind != "person"]
        if sentence.order == "before" or sentence.main.subject.relative or len(things) != 1:
            return
        genders = [{form.gender for form in forms} for forms in (things[0].de, things[0].it)]
        if all(len(found) == 1 for found in genders):
            (german,), (italian,) = genders
            it = Plain("it", (GERMAN_IT[german],), (ITALIAN_IT[italian],), ("",))
            sentence.main.subject = NounPhrase(pronoun=self._leaf(it))

    def _draw(self, values: Sequence[T]) -> Leaf[T]:
        return self._leaf(self._rng.choice(values))

    def _leaf(self, value: T) -> Leaf[T]:
        self._next += 1
        return Leaf(self._next, value)

    def _chance(self, p: float) -> bool:
        return self._rng.random() < p

    def _matrix(self, verbs: list[Verb]) -> Clause:
        tense = self._rng.choice(["present", "present", "past"])
        subject = self._noun_phrase("person", light=True, pronouns=True)
        return Clause(subject, tense, self._draw(verbs))

    def _clause(self, *, heavy: bool = False, tense: str = "", negated: bool = False) -> Clause:
        if not tense and not negated and self._chance(0.12):
            subject, be = self._noun_phrase(self._thing(), of=True), self._leaf("be")
            predicate = self._draw(lexicon.ADJECTIVE)
            return Clause(subject, "copula", auxiliary=be, predicate=predicate)
        relative_at = self._rng.choice(["subject", "object"]) if heavy and self._chance(0.4) else ""
        told = relative_at == "subject"
        subject = self._noun_phrase("person", pronouns=not told, relative=told)
        clause = self._predicate(subject, tense, negated=negated or self._chance(0.06))
        kinds = clause.verb.value.objects if clause.verb else ()
        of = kinds == lexicon.THINGS  # the meaning of other verbs depends on the noun
        kind = self._rng.choice(kinds)
        clause.object = self._noun_phrase(kind, relative=relative_at == "object", of=of)
        if self._chance(0.26):
            self._add_adverb(clause)
        elif self._chance(0.3):
            clause.preposition = self._draw(lexicon.PREPOSITION)
            preposition = clause.preposition.value
            kind = self._rng.choice(preposition.kinds)
            kind = self._thing() if kind == "thing" else kind
            genitive = preposition.de[0].endswith("gen")
            clause.adjunct = self._noun_phrase(kind, light=True, definite=genitive)
        return clause

    def _add_adverb(self, clause: Clause) -> None:
        past = clause.tense in ("past", "perfect")
        fit = [a for a in lexicon.ADVERB if a.kinds[0] != ("now" if past else "past")]
        clause.adverb = self._draw(fit)
        adverb = clause.adverb.value
        movable = adverb.kinds[0] == "time" and adverb.en != "today"
        clause.adverb_early = movable and self._chance(0.5)

    def _thing(self) -> str:
        return self._rng.choice(lexicon.THINGS)

    def _verb(self) -> Leaf[Verb]:
        tables = [lexicon.TRANSITIVE, lexicon.SENSES, lexicon.PHRASAL]
        return self._draw(self._rng.choices(tables, [0.5, 0.27, 0.23])[0])

    def _predicate(self, subject: NounPhrase, tense: str = "", *, negated: bool = False) -> Clause:
        if not tense:
            tenses = ["present", "past", "perfect", "modal"]
            (tense,) = self._rng.choices(tenses, [0.32, 0.26, 0.2, 0.22])
        clause = Clause(subject, tense)
        if tense == "perfect":
            clause.auxiliary = self._leaf("have")
        elif tense == "modal":
            # A negated must is another verb in German.
            modals = [m for m in lexicon.MODAL if not (negated and m.en == "must")]
            clause.modal = self._draw(modals)
        elif negated:
            clause.auxiliary = self._leaf("do")
        if negated:
            clause.negation = self._leaf("not")
        clause.verb = self._verb()
        if particle := clause.verb.value.particle:
            clause.particle = self._leaf(particle)
            clause.particle_late = self._chance(0.6)
        return clause

    def _noun_phrase(
        self,
        kind: str,
        *,
        light: bool = False,
        pronouns: bool = False,
        relative: bool = False,
        definite: bool = False,
        of: bool = False,
    ) -> NounPhrase:
        if kind == "person" and not relative and not definite:
            roll = self._rng.random()
            if pronouns and roll < 0.42:
                return NounPhrase(pronoun=self._draw(lexicon.PRONOUN))
            if roll > 0.86:
                return NounPhrase(name=self._leaf(self._name()))
        phrase = NounPhrase(plural=self._chance(0.35))
        if phrase.plural and not definite and self._chance(0.25):
            phrase.number = self._draw(lexicon.NUMBER)
        else:
            choices = DEFINITE if definite else PLURAL if phrase.plural else SINGULAR
            word = self._rng.choice(choices)
            word = "these" if phrase.plural and word == "this" else word
            phrase.determiner = self._leaf(lexicon.DETERMINER[word])
        if self._chance(0.15 if light else 0.3):
            phrase.adjectives = [self._draw(lexicon.ADJECTIVE)]
        if of and not relative and self._chance(0.3):
            self._add_whole(phrase)
        else:
            phrase.noun = self._draw(self._nouns[kind])
        if relative:
            phrase.relative = self._relative(kind, phrase.plural)
        return phrase

    def _add_whole(self, phrase: NounPhrase) -> None:
        inner = self._rng.choice(sorted(self._relational))
        phrase.noun = self._draw(self._relational[inner])
        phrase.of = self._leaf("of")
        phrase.whole = self._noun_phrase(inner, light=True, definite=True)

    def _name(self) -> Plain:
        if self._chance(0.5):
            return self._rng.choice(lexicon.NAME)
        common, rare = self._rng.choice(lexicon.SPELLINGS)
        return rare if self._chance(RARE) else common

    def _relative(self, kind: str, plural: bool) -> Relative:
        pronoun = self._leaf("who" if kind == "person" else "that")
        if kind == "person":
            clause = self._predicate(NounPhrase(plural=plural))
            objects = clause.verb.value.objects if clause.verb else ()
            clause.object = self._noun_phrase(self._rng.choice(objects), light=True)
            return Relative(pronoun, "subject", clause)
        subject = self._noun_phrase("person", light=True, pronouns=True)
        return Relative(pronoun, "object", self._predicate_of(kind, subject))

    def _predicate_of(self, kind: str, subject: NounPhrase) -> Clause:
        """Draw a predicate whose verb takes ``kind`` as its object."""
        while True:
            mark = self._next
            clause = self._predicate(subject)
            if clause.verb and kind in clause.verb.value.objects:
                return clause
            self._next = mark


def _by_kind(nouns: list[Noun]) -> dict[str, list[Noun]]:
    found: dict[str, list[Noun]] = defaultdict(list)
    for noun in nouns:
        found[noun.kind].append(noun)
    return found
