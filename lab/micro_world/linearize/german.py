"""German: verb second in main clauses, verb last in subordinate ones, case and gender.

Articles and endings depend on the noun, so they wait for it too.
"""

from lab.micro_world.forms import GermanVerb, Plain, german_dative, german_genitive
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
        adverb = self.words(node.adverb) if node.adverb else []
        if not front and adverb and self.chance(0.08):
            front, adverb = adverb, []
        subject = self._phrase(node.subject, "nom")
        head = [*front, *finite, *subject] if front else [*subject, *finite]
        return [*head, *self._middle(node, adverb, until), *last]

    def _subordinate(self, node: Clause, gap: str = "") -> list[Token]:
        """Verb last."""
        finite, last = self._verb_group(node)
        subject = [] if gap == "subject" else self._phrase(node.subject, "nom")
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
            words += self._phrase(node.adjunct, case)
        return [*words, self.word(node.predicate)] if node.predicate else words

    def _object(self, node: Clause, phrase: NounPhrase, until: int | None) -> list[Token]:
        negation = node.negation.id if node.negation and until is None else None
        return self._phrase(phrase, "acc", negation if takes_kein(node) else None)

    def _verb_group(self, node: Clause) -> tuple[list[Token], list[Token]]:
        """Return the finite verb and the words that close the clause."""
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

    def _phrase(self, node: NounPhrase, case: str, negation: int | None = None) -> list[Token]:
        """Return a noun phrase in a case; a ``negation`` merges with its article."""
        simple = node.pronoun or node.name
        if simple:
            return [self.usual(simple)]
        assert node.noun
        noun, ids = self.pick(node.noun), node.depends
        gender = "p" if node.plural else noun.gender
        text = noun.form(node.plural)
        if node.plural and case == "dat":
            text = german_dative(text)
        if case == "gen" and not node.plural:
            text = german_genitive(text, gender)
        words = []
        kind = node.determiner.value.de[0] if node.determiner else ""
        if node.determiner:
            kind = "kein" if negation is not None else kind
            melted = () if negation is None else (negation,)
            form = article(kind, gender, case)
            words.append(Token(form, (node.determiner.id, *ids, *melted)))
        if node.number:
            words.append(self.usual(node.number))
        for adjective in node.adjectives:
            form = self.pick(adjective) + ending(kind, gender, case)
            words.append(Token(form, (adjective.id, *ids)))
        words.append(Token(text, ids))
        if node.whole:
            words += self._phrase(node.whole, "gen")
        return words + self._relative(node, gender)

    def _relative(self, node: NounPhrase, gender: str) -> list[Token]:
        if not node.relative:
            return []
        pronoun = node.relative.pronoun.id
        form = DER["nom" if node.relative.gap == "subject" else "acc"][gender]
        words = [comma(pronoun), Token(form, (pronoun, *node.depends))]
        words += self._subordinate(node.relative.clause, node.relative.gap)
        return [*words, comma(words[-1].ids[0])]


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
