"""English word order."""

from typing import Any

from lab.micro_world.linearize.writer import INFLECTION, Token, comma, finish
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence

FORMS = INFLECTION["en"]


def linearize(sentence: Sentence) -> list[Token]:
    """Return the English words; a comma shares the identity of the word before it."""
    words = [_word(sentence.opener)] if sentence.opener else []
    if sentence.when:
        when = sentence.when
        unit = _word(when.unit, when.unit.value.en[1])
        words += [_word(when.number), unit, _word(when.direction)]
    first, second, link = sentence.main, sentence.second, sentence.link
    if not second or not link:
        words += clause(first)
    elif sentence.order == "before":
        words += [_word(link), *clause(second)]
        words += [comma(*words[-1].ids), *clause(first)]
    else:
        words += [*clause(first), _word(link), *clause(second)]
    return finish(words)


def _word(leaf: Leaf[Any], text: str = "") -> Token:
    return Token(text or getattr(leaf.value, "en", leaf.value), (leaf.id,))


def clause(node: Clause, *, skip_subject: bool = False) -> list[Token]:
    """Subject, auxiliary, adverb, verb, particle, object, particle, adjunct, adverb."""
    words = [] if skip_subject else noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        be = _word(node.auxiliary, FORMS["be"][node.subject.person])
        return [*words, be, _word(node.predicate)]
    *auxiliary, verb = verb_group(node)
    adverb = [_word(node.adverb)] if node.adverb else []
    particle = [_word(node.particle)] if node.particle else []
    words += auxiliary
    words += [*adverb, verb] if node.adverb_early else [verb]
    late = node.particle_late and node.object
    words += [] if late else particle
    words += noun_phrase(node.object) if node.object else []
    words += particle if late else []
    if node.preposition and node.adjunct:
        words += [_word(node.preposition), *noun_phrase(node.adjunct)]
    return words if node.adverb_early else words + adverb


def verb_group(node: Clause) -> list[Token]:
    """Return the auxiliary, "not" and the verb, if present."""
    assert node.verb
    person, forms = node.subject.person, node.verb.value.en
    words = []
    text = forms.third if person == 1 else forms.base
    if node.tense == "past":
        text = forms.past
    if node.auxiliary and node.auxiliary.value == "do":
        do = "did" if node.tense == "past" else "does" if person == 1 else "do"
        words, text = [_word(node.auxiliary, do)], forms.base
    elif node.auxiliary:
        words, text = [_word(node.auxiliary, FORMS["have"][person])], forms.participle
    elif node.modal:
        words, text = [_word(node.modal)], forms.base
    negation = [_word(node.negation)] if node.negation else []
    return [*words, *negation, _word(node.verb, text)]


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Determiner or number, adjectives, noun, "of" or relative clause."""
    simple = node.pronoun or node.name
    if simple:
        return [_word(simple)]
    assert node.noun
    core = [*map(_word, node.adjectives), _word(node.noun, node.noun.value.en[node.plural])]
    words = []
    if node.determiner:
        an = node.determiner.value.en == "a" and core[0].text[0] in "aeio"
        words.append(_word(node.determiner, "an" if an else ""))
    if node.number:
        words.append(_word(node.number))
    words += core
    if node.of and node.whole:
        words += [_word(node.of), *noun_phrase(node.whole)]
    if node.relative:
        subject = node.relative.gap == "subject"
        words.append(_word(node.relative.pronoun))
        words += clause(node.relative.clause, skip_subject=subject)
    return words
