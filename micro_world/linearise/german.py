"""German: verb second in main clauses, verb last in subordinate ones, case and gender."""

from __future__ import annotations

from micro_world import lexicon
from micro_world.grammar import Clause, Leaf, NounPhrase, Sentence
from micro_world.lexicon import Verb
from micro_world.linearise.token import END, Token, capitalise, merge_marks

BE = ("bin", "ist", "sind", "sind")
HAVE = ("habe", "hat", "haben", "haben")
DER = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
EIN_ENDING = {
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
DIESER_ENDING = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
CASE = {"with": "dat", "in": "dat", "for": "acc"}


def linearise(sentence: Sentence) -> list[Token]:
    """Return the German words and marks."""
    first, second, link = sentence.main, sentence.second, sentence.link
    opener = []
    if sentence.opener:
        opener = [Token(sentence.opener.value.de, (sentence.opener.id,))]
    if sentence.order == "before" and second and link:
        words = [Token(link.value.de, (link.id,)), *subordinate(second)]
        words.append(Token(",", (words[-1].ids[0],), glue=True))
        words += main(first, front=[Token("", ())])
    else:
        words = main(first, front=opener)
        if second and link:
            if sentence.order == "and":
                words += [Token(link.value.de, (link.id,)), *main(second, front=[])]
            else:
                words.append(Token(",", (link.id,), glue=True))
                words += [Token(link.value.de, (link.id,)), *subordinate(second)]
    words = [word for word in words if word.text]
    return merge_marks([*capitalise(words), Token(".", (END,), glue=True)])


def main(node: Clause, front: list[Token]) -> list[Token]:
    """Verb second; a filled front field sends the subject behind the verb."""
    finite, last = verb_group(node)
    subject = noun_phrase(node.subject, "nom")
    head = [*front, *finite, *subject] if front else [*subject, *finite]
    return [*head, *middle(node), *last]


def subordinate(node: Clause, *, gap: str = "") -> list[Token]:
    """Verb last."""
    finite, last = verb_group(node)
    subject = [] if gap == "subject" else noun_phrase(node.subject, "nom")
    if node.verb and node.verb.value.de_prefix and node.tense == "present":
        joined = Token(last[0].text + finite[0].text, finite[0].ids)
        return [*subject, *middle(node), joined]
    return [*subject, *middle(node), *last, *finite]


def middle(node: Clause) -> list[Token]:
    """Adverb, object, adjunct, predicate."""
    words = []
    if node.adverb:
        words.append(Token(node.adverb.value.de, (node.adverb.id,)))
    if node.object:
        words += noun_phrase(node.object, "acc")
    if node.preposition and node.adjunct:
        words.append(Token(node.preposition.value.de, (node.preposition.id,)))
        words += noun_phrase(node.adjunct, CASE[node.preposition.value.en])
    if node.predicate:
        words.append(Token(node.predicate.value.de, (node.predicate.id,)))
    return words


def verb_group(node: Clause) -> tuple[list[Token], list[Token]]:
    """Return the finite verb and what closes the clause."""
    person = node.subject.person
    if node.tense == "copula" and node.auxiliary:
        return [Token(BE[person], (node.auxiliary.id,))], []
    assert node.verb
    verb, ident = node.verb.value, node.verb.id
    if node.tense == "perfect" and node.auxiliary:
        prefix = verb.de_prefix
        return (
            [Token(HAVE[person], (node.auxiliary.id,))],
            [Token(prefix + verb.de[2], (ident,))],
        )
    if node.tense == "modal" and node.auxiliary:
        form = lexicon.MODALS[node.auxiliary.value]["de"][person]
        return (
            [Token(form, (node.auxiliary.id,))],
            [Token(verb.de_prefix + verb.de[0], (ident,))],
        )
    finite = [Token(conjugate(verb, person), (ident,))]
    return finite, [Token(verb.de_prefix, (ident,))] if verb.de_prefix else []


def conjugate(verb: Verb, person: int) -> str:
    """Present tense."""
    infinitive, third, _ = verb.de
    if person == 0:
        if infinitive == "wissen":
            return "weiß"
        return infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"
    return third if person == 1 else infinitive


def noun_phrase(node: NounPhrase, case: str) -> list[Token]:
    """Article and adjective endings depend on the noun, so they wait for it too."""
    simple = node.pronoun or node.name
    if simple:
        return [Token(simple.value.de, (simple.id,))]
    assert node.noun
    noun, ident = node.noun.value, node.noun.id
    gender = "p" if node.plural else noun.de_gender
    text = noun.de[node.plural]
    if node.plural and case == "dat" and not text.endswith(("n", "s")):
        text += "n"
    words = []
    if node.determiner:
        form = article(node.determiner.value, gender, case)
        words.append(Token(form, (node.determiner.id, ident)))
    if node.number:
        words.append(Token(node.number.value.de, (node.number.id,)))
    for adjective in node.adjectives:
        ending = adjective_ending(node.determiner, gender, case)
        words.append(Token(adjective.value.de + ending, (adjective.id, ident)))
    words.append(Token(text, (ident,)))
    if node.relative:
        pronoun = node.relative.pronoun.id
        words.append(Token(",", (pronoun,), glue=True))
        relative_case = "nom" if node.relative.gap == "subject" else "acc"
        words.append(Token(DER[relative_case][gender], (pronoun, ident)))
        words += subordinate(node.relative.clause, gap=node.relative.gap)
        words.append(Token(",", (words[-1].ids[0],), glue=True))
    return words


def article(determiner: str, gender: str, case: str) -> str:
    """Inflect the, a, this, these, our."""
    if determiner == "the":
        return DER[case][gender]
    if determiner in ("this", "these"):
        return "dies" + DIESER_ENDING[case][gender]
    return {"a": "ein", "our": "unser"}[determiner] + EIN_ENDING[case][gender]


def adjective_ending(determiner: Leaf[str] | None, gender: str, case: str) -> str:
    """Weak after der-words, mixed after ein-words, strong plural after numbers."""
    kind = determiner.value if determiner else ""
    if not kind:
        return "en" if case == "dat" else "e"
    if gender == "p" or case == "dat" or (case == "acc" and gender == "m"):
        return "en"
    if kind in ("a", "our"):
        return {"m": "er", "f": "e", "n": "es"}[gender]
    return "e"
