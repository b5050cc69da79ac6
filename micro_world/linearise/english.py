"""English word order."""

from __future__ import annotations

from micro_world.grammar import Clause, NounPhrase, Sentence
from micro_world.linearise.token import END, Token, capitalise

BE = ("am", "is", "are", "are")
HAVE = ("have", "has", "have", "have")


def linearise(sentence: Sentence) -> list[Token]:
    """Return the English words; a comma is glued and shares the identity of the word before it."""
    words: list[Token] = []
    if sentence.opener:
        words.append(Token(sentence.opener.value.en, (sentence.opener.id,)))
    clauses = [sentence.main] + ([sentence.second] if sentence.second else [])
    if sentence.order == "before" and sentence.link:
        words.append(Token(sentence.link.value.en, (sentence.link.id,)))
        words += clause(clauses[1])
        words.append(Token(",", words[-1].ids, glue=True))
        words += clause(clauses[0])
    else:
        words += clause(clauses[0])
        if sentence.link:
            words.append(Token(sentence.link.value.en, (sentence.link.id,)))
            words += clause(clauses[1])
    return [*capitalise(words), Token(".", (END,), glue=True)]


def clause(node: Clause, *, skip_object: bool = False, skip_subject: bool = False) -> list[Token]:
    """Subject, auxiliary, verb, object, adjunct, adverb."""
    person = node.subject.person
    words = [] if skip_subject else noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        words.append(Token(BE[person], (node.auxiliary.id,)))
        words.append(Token(node.predicate.value.en, (node.predicate.id,)))
        return words
    assert node.verb
    base, third, participle = node.verb.value.en
    if node.tense == "perfect" and node.auxiliary:
        words.append(Token(HAVE[person], (node.auxiliary.id,)))
        words.append(Token(participle, (node.verb.id,)))
    elif node.tense == "modal" and node.auxiliary:
        words.append(Token(node.auxiliary.value, (node.auxiliary.id,)))
        words.append(Token(base, (node.verb.id,)))
    else:
        words.append(Token(third if person == 1 else base, (node.verb.id,)))
    if node.object and not skip_object:
        words += noun_phrase(node.object)
    if node.preposition and node.adjunct:
        words.append(Token(node.preposition.value.en, (node.preposition.id,)))
        words += noun_phrase(node.adjunct)
    if node.adverb:
        words.append(Token(node.adverb.value.en, (node.adverb.id,)))
    return words


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Determiner or number, adjectives, noun, relative clause."""
    simple = node.pronoun or node.name
    if simple:
        return [Token(simple.value.en, (simple.id,))]
    assert node.noun
    words = []
    adjectives = [Token(a.value.en, (a.id,)) for a in node.adjectives]
    noun = Token(node.noun.value.en[node.plural], (node.noun.id,))
    if node.determiner:
        text = node.determiner.value
        if text == "a" and (adjectives or [noun])[0].text[0] in "aeio":
            text = "an"
        words.append(Token(text, (node.determiner.id,)))
    if node.number:
        words.append(Token(node.number.value.en, (node.number.id,)))
    words += [*adjectives, noun]
    if node.relative:
        words.append(Token(node.relative.pronoun.value, (node.relative.pronoun.id,)))
        words += clause(node.relative.clause, skip_subject=node.relative.gap == "subject")
    return words
