"""English word order."""

from typing import Any

from lab.micro_world.linearize.writer import INFLECTION, Token, comma, finish
from lab.micro_world.tree import Clause, Leaf, NounPhrase, Sentence

FORMS = INFLECTION["en"]


def linearize(sentence: Sentence) -> list[Token]:
    """Return the English words; a comma shares the identity of the word before it."""
    words: list[Token] = []
    if sentence.opener:
        words.append(_word(sentence.opener))
    if sentence.when:
        when = sentence.when
        _, plural = when.unit.value.en
        words += [_word(when.number), _word(when.unit, plural), _word(when.direction)]
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
    """Return a leaf as a token, in the form ``text`` if it is not the base form."""
    if not text:
        # The value of a function word is the word itself.
        text = getattr(leaf.value, "en", leaf.value)
    return Token(text, (leaf.id,))


def clause(node: Clause, *, skip_subject: bool = False) -> list[Token]:
    """Subject, auxiliary, adverb, verb, particle, object, particle, adjunct, adverb."""
    words = []
    if not skip_subject:
        words += noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        be = _word(node.auxiliary, FORMS["be"][node.subject.person])
        return [*words, be, _word(node.predicate)]
    *auxiliary, verb = verb_group(node)
    words += auxiliary
    if node.adverb and node.adverb_early:
        words.append(_word(node.adverb))
    words.append(verb)
    particle_late = node.particle_late and node.object
    if node.particle and not particle_late:
        words.append(_word(node.particle))
    if node.object:
        words += noun_phrase(node.object)
    if node.particle and particle_late:
        words.append(_word(node.particle))
    if node.preposition and node.adjunct:
        words += [_word(node.preposition), *noun_phrase(node.adjunct)]
    if node.adverb and not node.adverb_early:
        words.append(_word(node.adverb))
    return words


def verb_group(node: Clause) -> list[Token]:
    """Return the auxiliary, "not" and the verb, if present."""
    assert node.verb
    forms = node.verb.value.en
    words = []
    if node.auxiliary and node.auxiliary.value == "do":
        words.append(_word(node.auxiliary, _do(node)))
        text = forms.base
    elif node.auxiliary:
        words.append(_word(node.auxiliary, FORMS["have"][node.subject.person]))
        text = forms.participle
    elif node.modal:
        words.append(_word(node.modal))
        text = forms.base
    elif node.tense == "past":
        text = forms.past
    elif node.subject.person == 1:
        text = forms.third
    else:
        text = forms.base
    if node.negation:
        words.append(_word(node.negation))
    words.append(_word(node.verb, text))
    return words


def _do(node: Clause) -> str:
    if node.tense == "past":
        return "did"
    if node.subject.person == 1:
        return "does"
    return "do"


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Determiner or number, adjectives, noun, "of" or relative clause."""
    simple = node.pronoun or node.name
    if simple:
        return [_word(simple)]
    assert node.noun
    noun = _word(node.noun, node.noun.value.en[node.plural])
    core = [*map(_word, node.adjectives), noun]
    words = []
    if node.determiner:
        text = node.determiner.value.en
        # Every listed adjective or noun with an initial u is pronounced like "useful".
        if text == "a" and core[0].text[0] in "aeio":
            text = "an"
        words.append(_word(node.determiner, text))
    if node.number:
        words.append(_word(node.number))
    words += core
    if node.of and node.whole:
        words += [_word(node.of), *noun_phrase(node.whole)]
    if node.relative:
        words.append(_word(node.relative.pronoun))
        skip_subject = node.relative.gap == "subject"
        words += clause(node.relative.clause, skip_subject=skip_subject)
    return words
