"""German: verb second in main clauses, verb last in subordinate ones, case and gender.

Articles and endings depend on the noun, so they wait for it too.
"""

from lab.micro_world.forms import Gendered, GermanVerb, Plain, german_dative, german_genitive
from lab.micro_world.linearize.writer import INFLECTION, Token, Writer, comma, finish, merge_marks
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence

FORMS = INFLECTION["de"]
DER, STRONG = FORMS["der"], FORMS["strong"]


class German(Writer):
    """Writes trees in German, in a drawn wording."""

    code = "de"

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the German words and marks."""
        first, second, link = sentence.main, sentence.second, sentence.link
        front = self._front(sentence)
        if sentence.order == "before" and second and link:
            words = [self.word(link), *self._subordinate(second)]
            words.append(comma(words[-1].ids[0]))
            # The first clause fills the front field, for which an empty word stands here.
            words += self._main(first, front=[Token("", ())])
        else:
            until = None
            if link and sentence.order == "until":
                until = link.id
            words = self._main(first, front, until)
            if second and link:
                words += self._second(sentence.order, link, second)
        written = [word for word in words if word.text]
        return merge_marks(finish(written))

    def _front(self, sentence: Sentence) -> list[Token]:
        if sentence.opener:
            return self.words(sentence.opener)
        if not sentence.when:
            return []
        when = sentence.when
        number = self.usual(when.number)
        plural = when.unit.value.de[0].plural
        direction = when.direction.id
        if when.direction.value == "later":
            # "Vor" would stand before the number, so the number waits for the direction.
            number = number._replace(ids=(*number.ids, direction))
            return [number, Token(plural, (when.unit.id,)), Token("später", (direction,))]
        unit = Token(german_dative(plural), (when.unit.id, direction))
        return [Token("vor", (direction,)), number, unit]

    def _second(self, order: str, link: Leaf[Plain], second: Clause) -> list[Token]:
        if order == "and":
            return [self.usual(link), *self._main(second)]
        words = [comma(link.id)]
        if order == "until":
            return [*words, Token("wenn", (link.id,)), *self._subordinate(second)]
        if order == "that" and link.value.en == "that" and self.chance(0.1):
            return [*words, *self._main(second)]
        return [*words, self.word(link), *self._subordinate(second)]

    def _main(
        self, node: Clause, front: list[Token] | None = None, until: int | None = None
    ) -> list[Token]:
        """Put the verb second; after a filled front field, the subject follows the verb."""
        finite, last = self._verb_group(node)
        front = list(front or [])
        adverb = self.optional_words(node.adverb)
        if not front and adverb and self.chance(0.08):
            front = adverb
            adverb = []
        subject = self._phrase(node.subject, "nom")
        middle = self._middle(node, adverb, until)
        if front:
            return [*front, *finite, *subject, *middle, *last]
        return [*subject, *finite, *middle, *last]

    def _subordinate(self, node: Clause, gap: str = "") -> list[Token]:
        """Verb last."""
        finite, last = self._verb_group(node)
        words: list[Token] = []
        if gap != "subject":
            words += self._phrase(node.subject, "nom")
        adverb = self.optional_words(node.adverb)
        words += self._middle(node, adverb, until=None)
        if last and last[0].text in _prefixes(node):
            # At the end of the clause, a separable prefix is written with its verb.
            joined = Token(last[0].text + finite[0].text, finite[0].ids)
            return [*words, joined]
        return [*words, *last, *finite]

    def _middle(self, node: Clause, adverb: list[Token], until: int | None) -> list[Token]:
        """Adverb and object, not, adjunct, predicate."""
        words = list(adverb)
        if node.object:
            object_words = self._object(node, node.object, until)
            if adverb and not node.object.number and self.chance(0.12):
                words = [*object_words, *adverb]
            else:
                words = [*adverb, *object_words]
        if node.negation and until is not None:
            words.append(Token("erst", (until, node.negation.id)))
        elif node.negation and not takes_kein(node):
            words.append(Token("nicht", (node.negation.id,)))
        if node.preposition and node.adjunct:
            word, case = node.preposition.value.de[0].split()
            words.append(Token(word, (node.preposition.id,)))
            words += self._phrase(node.adjunct, case)
        if node.predicate:
            words.append(self.word(node.predicate))
        return words

    def _object(self, node: Clause, phrase: NounPhrase, until: int | None) -> list[Token]:
        negation = None
        # "Not until" is "erst", which does not change the article.
        if node.negation and until is None and takes_kein(node):
            negation = node.negation.id
        return self._phrase(phrase, "acc", negation)

    def _verb_group(self, node: Clause) -> tuple[list[Token], list[Token]]:
        """Return the finite verb and the words that close the clause."""
        person = node.subject.person
        if node.tense == "copula" and node.auxiliary:
            return [Token(FORMS["be"][person], (node.auxiliary.id,))], []
        assert node.verb
        verb, ids = self.pick(node.verb), node.depends
        if node.tense in ("perfect", "past"):
            # The English past has no auxiliary, so "hat" depends on the verb.
            auxiliary = node.auxiliary or node.verb
            have = Token(FORMS["have"][person], (auxiliary.id,))
            return [have], [Token(verb.prefix + verb.participle, ids)]
        if node.modal:
            form = Token(node.modal.value.de[person], (node.modal.id,))
            return [form], [Token(verb.prefix + verb.infinitive, ids)]
        finite = Token(conjugate(verb, person), ids)
        if verb.prefix:
            return [finite], [Token(verb.prefix, ids)]
        return [finite], []

    def _phrase(self, node: NounPhrase, case: str, negation: int | None = None) -> list[Token]:
        """Return a noun phrase in a case; a ``negation`` merges with its article."""
        simple = node.pronoun or node.name
        if simple:
            return [self.usual(simple)]
        assert node.noun
        noun, ids = self.pick(node.noun), node.depends
        gender = noun.gender
        if node.plural:
            gender = "p"
        kind = ""
        words = []
        if node.determiner:
            kind = node.determiner.value.de[0]
            determiner_ids = (node.determiner.id, *ids)
            if negation is not None:
                kind = "kein"
                determiner_ids = (*determiner_ids, negation)
            words.append(Token(article(kind, gender, case), determiner_ids))
        if node.number:
            words.append(self.usual(node.number))
        for adjective in node.adjectives:
            form = self.pick(adjective) + ending(kind, gender, case)
            words.append(Token(form, (adjective.id, *ids)))
        words.append(Token(noun_form(noun, node.plural, case), ids))
        if node.whole:
            words += self._phrase(node.whole, "gen")
        return words + self._relative(node, gender)

    def _relative(self, node: NounPhrase, gender: str) -> list[Token]:
        if not node.relative:
            return []
        case = "acc"
        if node.relative.gap == "subject":
            case = "nom"
        pronoun = node.relative.pronoun.id
        words = [comma(pronoun), Token(DER[case][gender], (pronoun, *node.depends))]
        words += self._subordinate(node.relative.clause, node.relative.gap)
        words.append(comma(words[-1].ids[0]))
        return words


def noun_form(noun: Gendered, plural: bool, case: str) -> str:
    """Inflect a noun."""
    text = noun.form(plural)
    if plural and case == "dat":
        return german_dative(text)
    if not plural and case == "gen":
        return german_genitive(text, noun.gender)
    return text


def article(kind: str, gender: str, case: str) -> str:
    """Inflect a determiner."""
    if kind == "der":
        return str(DER[case][gender])
    if kind in ("dieser", "jeder"):
        return str(kind.removesuffix("er") + FORMS["dieser"][case][gender])
    if kind in ("einige", "viele"):
        return str(kind.removesuffix("e") + STRONG[case])
    return str(kind + FORMS["ein"][case][gender])


def ending(kind: str, gender: str, case: str) -> str:
    """Adjective: weak after der-words, mixed after ein-words, strong in other plurals."""
    if kind in ("", "einige", "viele"):
        return str(STRONG[case])
    if gender == "p" or case in ("dat", "gen") or (case == "acc" and gender == "m"):
        return "en"
    if kind in FORMS["ein_words"]:
        return {"m": "er", "f": "e", "n": "es"}[gender]
    return "e"


def takes_kein(node: Clause) -> bool:
    """Return whether the negation merges with the article of the object."""
    if not node.object or not node.object.determiner:
        return False
    return node.object.determiner.value.en == "a"


def conjugate(verb: GermanVerb, person: int) -> str:
    """Return the present tense of a person: 0 = 1sg, 1 = 3sg, 2 = 1pl, 3 = 3pl."""
    if person == 0:
        return _first_person(verb.infinitive)
    if person == 1:
        return verb.third
    # Both plural forms equal the infinitive.
    return verb.infinitive


def _first_person(infinitive: str) -> str:
    if infinitive == "wissen":
        return "weiß"
    if infinitive.endswith("en"):
        return infinitive[:-1]
    return infinitive[:-1] + "e"


def _prefixes(node: Clause) -> set[str]:
    """Return the separable prefixes of all synonyms of the verb."""
    if not node.verb:
        return set()
    return {verb.prefix for verb in node.verb.value.de}
