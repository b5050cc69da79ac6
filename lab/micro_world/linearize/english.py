"""English word order."""

from __future__ import annotations

from lab.micro_world.linearize.token import END, Token, capitalize
from lab.micro_world.tree import Clause, NounPhrase, Sentence

BE = ("am", "is", "are", "are")
HAVE = ("have", "has", "have", "have")


def linearize(sentence: Sentence) -> list[Token]:
    """Return the English words; a comma is glued and shares the identity of the word before it."""
    words: list[Token] = []
    if sentence.opener:
        words.append(Token(sentence.opener.value.en, (sentence.opener.id,)))
    if sentence.when:
        when = sentence.when
        words.append(Token(when.number.value.en, (when.number.id,)))
        words.append(Token(when.unit.value.en[1], (when.unit.id,)))
        words.append(Token(when.direction.value, (when.direction.id,)))
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
    return [*capitalize(words), Token(".", (END,), glue=True)]


def clause(node: Clause, *, skip_subject: bool = False) -> list[Token]:
    """Subject, auxiliary, adverb, verb, particle, object, particle, adjunct, adverb."""
    person = node.subject.person
    words = [] if skip_subject else noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        words.append(Token(BE[person], (node.auxiliary.id,)))
        words.append(Token(node.predicate.value.en, (node.predicate.id,)))
        return words
    *auxiliary, verb = verb_group(node)
    adverb = [Token(node.adverb.value.en, (node.adverb.id,))] if node.adverb else []
    particle = [Token(node.particle.value, (node.particle.id,))] if node.particle else []
    words += auxiliary
    words += [*adverb, verb] if node.adverb_early else [verb]
    late = node.particle_late and node.object
    words += [] if late else particle
    words += noun_phrase(node.object) if node.object else []
    words += particle if late else []
    if node.preposition and node.adjunct:
        words.append(Token(node.preposition.value.en, (node.preposition.id,)))
        words += noun_phrase(node.adjunct)
    return words if node.adverb_early else words + adverb


def verb_group(node: Clause) -> list[Token]:
    """Return auxiliary, not and the verb, as far as there are any."""
    assert node.verb
    person, forms = node.subject.person, node.verb.value.en
    words = []
    text = forms.third if person == 1 else forms.base
    if node.tense == "past":
        text = forms.past
    if node.auxiliary and node.auxiliary.value == "do":
        do = "did" if node.tense == "past" else "does" if person == 1 else "do"
        words.append(Token(do, (node.auxiliary.id,)))
        text = forms.base
    elif node.auxiliary:
        words.append(Token(HAVE[person], (node.auxiliary.id,)))
        text = forms.participle
    elif node.modal:
        words.append(Token(node.modal.value.en, (node.modal.id,)))
        text = forms.base
    if node.negation:
        words.append(Token(node.negation.value, (node.negation.id,)))
    return [*words, Token(text, (node.verb.id,))]


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Determiner or number, adjectives, noun, "of" or relative clause."""
    simple = node.pronoun or node.name
    if simple:
        return [Token(simple.value.en, (simple.id,))]
    assert node.noun
    words = []
    adjectives = [Token(a.value.en, (a.id,)) for a in node.adjectives]
    noun = Token(node.noun.value.en[node.plural], (node.noun.id,))
    if node.determiner:
        text = node.determiner.value.en
        if text == "a" and starts_with_vowel((adjectives or [noun])[0].text):
            text = "an"
        words.append(Token(text, (node.determiner.id,)))
    if node.number:
        words.append(Token(node.number.value.en, (node.number.id,)))
    words += [*adjectives, noun]
    if node.of and node.whole:
        words.append(Token("of", (node.of.id,)))
        words += noun_phrase(node.whole)
    if node.relative:
        words.append(Token(node.relative.pronoun.value, (node.relative.pronoun.id,)))
        words += clause(node.relative.clause, skip_subject=node.relative.gap == "subject")
    return words


def starts_with_vowel(word: str) -> bool:
    """Tell whether "an" stands before ``word``."""
    return word[0] in "aeio"
