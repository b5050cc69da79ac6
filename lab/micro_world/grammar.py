"""Draw random sentences of conference talks as language-neutral trees."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from lab.micro_world import lexicon
from lab.micro_world.forms import Noun, Plain, Verb
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Relative, Sentence, When

T = TypeVar("T")

# A determiner is drawn as often as it is listed.
POSSESSIVES = ("our", "my", "his", "her", "their")
DEFINITE = ("the", "the", "the", "this", *POSSESSIVES)
SINGULAR = ("the",) * 5 + ("a",) * 5 + ("this", "every", *POSSESSIVES)
PLURAL = ("the",) * 6 + ("these", "these", "some", "many", *POSSESSIVES)
RARE = 0.4
"""Probability of the rare spelling of a name that has two spellings."""
GERMAN_IT = {"m": "er", "f": "sie", "n": "es"}
ITALIAN_IT = {"m": "lui", "f": "lei"}
"""Pronouns that refer to a thing, by the gender of its noun; Chinese omits them."""


class Grammar:
    """Samples sentences; the same seed gives the same sentences.

    The identity of a leaf is the number of its draw in the sentence. The trained models depend on
    the order of all draws.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = 0
        self._nouns = _by_kind(lexicon.NOUNS)
        self._relational = _by_kind(lexicon.RELATIONAL)

    def sentence(self) -> Sentence:
        """Draw one sentence."""
        self._next = 0
        roll = self._rng.random()
        opener = None
        if self._chance(0.18):
            opener = self._draw(lexicon.OPENER)
        if roll < 0.42:
            return self._single(opener)
        if roll < 0.56:
            return self._after(opener)
        if roll < 0.68:
            # The second clause comes first, so an opener that was drawn is dropped.
            return self._before()
        if roll < 0.82:
            return self._that(opener)
        if roll < 0.90:
            return self._until(opener)
        return self._and(opener)

    def _single(self, opener: Leaf[Plain] | None) -> Sentence:
        if not opener and self._chance(0.12):
            number = self._draw(lexicon.NUMBER)
            unit = self._draw(lexicon.TIME)
            when = When(number, unit, self._draw(("ago", "later")))
            return Sentence("single", self._clause(heavy=True, tense="past"), when=when)
        return Sentence("single", self._clause(heavy=True), opener)

    def _after(self, opener: Leaf[Plain] | None) -> Sentence:
        first = self._clause()
        link = self._draw(lexicon.LINK)
        second = self._clause()
        return Sentence("after", first, opener, link=link, second=second)

    def _before(self) -> Sentence:
        link = self._draw(lexicon.LINK)
        second = self._clause()
        first = self._clause()
        return Sentence("before", first, link=link, second=second)

    def _that(self, opener: Leaf[Plain] | None) -> Sentence:
        verbs, complementizer = lexicon.CLAUSAL, "that"
        if self._chance(0.3):
            verbs, complementizer = lexicon.QUESTIONING, "whether"
        first = self._matrix(verbs)
        link = self._leaf(lexicon.COMPLEMENTIZER[complementizer])
        second = self._clause()
        return Sentence("that", first, opener, link=link, second=second)

    def _until(self, opener: Leaf[Plain] | None) -> Sentence:
        first = self._clause(negated=True)
        # Each target language has its own construction for "not until".
        link = self._leaf(Plain("until", de=(), it=(), zh=()))
        second = self._clause(tense="perfect")
        return Sentence("until", first, opener, link=link, second=second)

    def _and(self, opener: Leaf[Plain] | None) -> Sentence:
        first = self._clause()
        link = self._leaf(Plain("and", de=("und",), it=("e",), zh=("并且", "而且")))
        second = self._clause()
        return Sentence("and", first, opener, link=link, second=second)

    def refer(self, sentence: Sentence, before: Sentence) -> None:
        """Make "it" the subject if the sentence ``before`` has one thing of one gender."""
        things = _things(before)
        if sentence.order == "before" or sentence.main.subject.relative or len(things) != 1:
            return
        german_genders = {noun.gender for noun in things[0].de}
        italian_genders = {noun.gender for noun in things[0].it}
        # If synonyms differ in gender, the pronoun depends on the synonym that is drawn.
        if len(german_genders) > 1 or len(italian_genders) > 1:
            return
        german_it = GERMAN_IT[german_genders.pop()]
        italian_it = ITALIAN_IT[italian_genders.pop()]
        it = Plain("it", de=(german_it,), it=(italian_it,), zh=("",))
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
            return self._copula()
        relative_at = ""
        if heavy and self._chance(0.4):
            relative_at = self._rng.choice(["subject", "object"])
        relative_subject = relative_at == "subject"
        subject = self._noun_phrase(
            "person", pronouns=not relative_subject, relative=relative_subject
        )
        clause = self._predicate(subject, tense, negated=negated or self._chance(0.06))
        assert clause.verb
        kinds = clause.verb.value.objects
        kind = self._rng.choice(kinds)
        # With other verbs, the noun of the object decides the translation of the verb.
        of = kinds == lexicon.THINGS
        clause.object = self._noun_phrase(kind, relative=relative_at == "object", of=of)
        if self._chance(0.26):
            self._add_adverb(clause)
        elif self._chance(0.3):
            self._add_adjunct(clause)
        return clause

    def _copula(self) -> Clause:
        subject = self._noun_phrase(self._thing(), of=True)
        be = self._leaf("be")
        predicate = self._draw(lexicon.ADJECTIVE)
        return Clause(subject, "copula", auxiliary=be, predicate=predicate)

    def _add_adverb(self, clause: Clause) -> None:
        unfit = "past"
        if clause.tense in ("past", "perfect"):
            unfit = "now"
        adverbs = [adverb for adverb in lexicon.ADVERB if adverb.kinds[0] != unfit]
        clause.adverb = self._draw(adverbs)
        adverb = clause.adverb.value
        movable = adverb.kinds[0] == "time" and adverb.en != "today"
        clause.adverb_early = movable and self._chance(0.5)

    def _add_adjunct(self, clause: Clause) -> None:
        clause.preposition = self._draw(lexicon.PREPOSITION)
        preposition = clause.preposition.value
        kind = self._rng.choice(preposition.kinds)
        if kind == "thing":
            kind = self._thing()
        genitive = preposition.de[0].endswith("gen")
        clause.adjunct = self._noun_phrase(kind, light=True, definite=genitive)

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
            modals = lexicon.MODAL
            if negated:
                # A negated must is another verb in German.
                modals = [modal for modal in lexicon.MODAL if modal.en != "must"]
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
        # Pronouns and names take no relative clause. After "of" and "during", nouns are drawn.
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
            phrase.determiner = self._determiner(phrase.plural, definite)
        adjective_share = 0.3
        if light:
            adjective_share = 0.15
        if self._chance(adjective_share):
            phrase.adjectives = [self._draw(lexicon.ADJECTIVE)]
        if of and not relative and self._chance(0.3):
            self._add_whole(phrase)
        else:
            phrase.noun = self._draw(self._nouns[kind])
        if relative:
            phrase.relative = self._relative(kind, phrase.plural)
        return phrase

    def _determiner(self, plural: bool, definite: bool) -> Leaf[Plain]:
        choices: Sequence[str] = SINGULAR
        if definite:
            choices = DEFINITE
        elif plural:
            choices = PLURAL
        word = self._rng.choice(choices)
        if plural and word == "this":
            word = "these"
        return self._leaf(lexicon.DETERMINER[word])

    def _add_whole(self, phrase: NounPhrase) -> None:
        """Draw a noun whose translation depends on the noun after "of", and that noun."""
        inner = self._rng.choice(sorted(self._relational))
        phrase.noun = self._draw(self._relational[inner])
        phrase.of = self._leaf("of")
        phrase.whole = self._noun_phrase(inner, light=True, definite=True)

    def _name(self) -> Plain:
        if self._chance(0.5):
            return self._rng.choice(lexicon.NAME)
        common, rare = self._rng.choice(lexicon.SPELLINGS)
        if self._chance(RARE):
            return rare
        return common

    def _relative(self, kind: str, plural: bool) -> Relative:
        """Draw a clause whose subject is the person, or whose object is the thing."""
        if kind == "person":
            pronoun = self._leaf("who")
            clause = self._predicate(NounPhrase(plural=plural))
            assert clause.verb
            object_kind = self._rng.choice(clause.verb.value.objects)
            clause.object = self._noun_phrase(object_kind, light=True)
            return Relative(pronoun, "subject", clause)
        pronoun = self._leaf("that")
        subject = self._noun_phrase("person", light=True, pronouns=True)
        return Relative(pronoun, "object", self._predicate_of(kind, subject))

    def _predicate_of(self, kind: str, subject: NounPhrase) -> Clause:
        """Draw a predicate whose verb takes ``kind`` as its object."""
        while True:
            first_id = self._next
            clause = self._predicate(subject)
            if clause.verb and kind in clause.verb.value.objects:
                return clause
            # The next attempt uses the identities of the rejected clause again.
            self._next = first_id


def _things(sentence: Sentence) -> list[Noun]:
    """Return the singular nouns of a sentence that are not persons."""
    things = []
    for clause in (sentence.main, sentence.second):
        if clause is None:
            continue
        for phrase in clause.noun_phrases():
            if phrase.noun is None or phrase.plural:
                continue
            noun = phrase.noun.value
            if noun.kind != "person":
                things.append(noun)
    return things


def _by_kind(nouns: list[Noun]) -> dict[str, list[Noun]]:
    nouns_by_kind: dict[str, list[Noun]] = defaultdict(list)
    for noun in nouns:
        nouns_by_kind[noun.kind].append(noun)
    return nouns_by_kind
