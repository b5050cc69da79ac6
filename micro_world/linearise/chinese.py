"""Chinese: relative clauses before the noun, adverbs and adjuncts before the verb, measures."""

from __future__ import annotations

from micro_world import lexicon
from micro_world.grammar import Clause, NounPhrase, Sentence
from micro_world.linearise.token import END, Token


def linearise(sentence: Sentence) -> list[Token]:
    """Return the Chinese words and marks."""
    first, second, link = sentence.main, sentence.second, sentence.link
    words: list[Token] = []
    if sentence.opener:
        words += marked(sentence.opener.value.zh, sentence.opener.id)
    if sentence.order == "before" and second and link:
        words += [*conjunction(link.value.zh, link.id, clause(second))]
        words.append(Token("，", (words[-1].ids[0],)))
        words += clause(first)
    else:
        words += clause(first)
        if second and link:
            if sentence.order != "that":
                words.append(Token("，", (link.id,)))
            words += conjunction(link.value.zh, link.id, clause(second))
    return [*words, Token("。", (END,), glue=True)]


def marked(text: str, ident: int) -> list[Token]:
    """Split a trailing comma off."""
    tokens = [Token(text.rstrip("，"), (ident,))]
    if text.endswith("，"):
        tokens.append(Token("，", (ident,)))
    return tokens


def conjunction(text: str, ident: int, words: list[Token]) -> list[Token]:
    """Conjunction before its clause; 当 closes with 时."""
    if not text:
        return words
    closing = [Token("时", (ident,))] if text == "当" else []
    return [Token(text, (ident,)), *words, *closing]


def clause(node: Clause, *, gap: str = "") -> list[Token]:
    """Subject, adverb, adjunct, verb group, object."""
    words = [] if gap == "subject" else noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        words.append(Token("很", (node.auxiliary.id,)))
        words.append(Token(node.predicate.value.zh, (node.predicate.id,)))
        return words
    assert node.verb
    if node.adverb:
        words.append(Token(node.adverb.value.zh, (node.adverb.id,)))
    if node.tense == "modal" and node.auxiliary:
        modal = lexicon.MODALS[node.auxiliary.value]["zh"][0]
        words.append(Token(modal, (node.auxiliary.id,)))
    if node.preposition and node.adjunct:
        words.append(Token(node.preposition.value.zh, (node.preposition.id,)))
        words += noun_phrase(node.adjunct)
        if node.preposition.value.en == "in":
            words.append(Token("里", (node.preposition.id, words[-1].ids[0])))
    words.append(Token(node.verb.value.zh, (node.verb.id,)))
    if node.tense == "perfect" and node.auxiliary:
        words.append(Token("了", (node.auxiliary.id,)))
    if node.object:
        words += noun_phrase(node.object)
    return words


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Relative clause, determiner or number with measure word, adjective, noun."""
    simple = node.pronoun or node.name
    if simple:
        return [Token(simple.value.zh, (simple.id,))]
    assert node.noun
    noun, ident = node.noun.value, node.noun.id
    words: list[Token] = []
    if node.relative:
        pronoun = node.relative.pronoun.id
        words += clause(node.relative.clause, gap=node.relative.gap)
        words.append(Token("的", (pronoun,)))
    if node.determiner:
        kind, where = node.determiner.value, node.determiner.id
        if kind == "a":
            words += [Token("一", (where,)), Token(noun.zh_measure, (ident, where))]
        elif kind == "this":
            words += [Token("这", (where,)), Token(noun.zh_measure, (ident, where))]
        elif kind == "these":
            words.append(Token("这些", (where,)))
        elif kind == "our":
            words.append(Token("我们的", (where,)))
    if node.number:
        words.append(Token(node.number.value.zh, (node.number.id,)))
        words.append(Token(noun.zh_measure, (ident, node.number.id)))
    for adjective in node.adjectives:
        words.append(Token(adjective.value.zh + "的", (adjective.id,)))
    return [*words, Token(noun.zh, (ident,))]
