"""Italian: adjectives after the noun, articles by sound, no subject pronoun for I, we, they."""

from __future__ import annotations

from micro_world import lexicon
from micro_world.grammar import Clause, NounPhrase, Sentence
from micro_world.linearise.token import END, Token, capitalise

BE = ("sono", "è", "siamo", "sono")
HAVE = ("ho", "ha", "abbiamo", "hanno")
VOWELS = "aeiouàèéìòù"


def linearise(sentence: Sentence) -> list[Token]:
    """Return the Italian words and marks."""
    first, second, link = sentence.main, sentence.second, sentence.link
    words: list[Token] = []
    if sentence.opener:
        words += split(sentence.opener.value.it, sentence.opener.id)
    if sentence.order == "before" and second and link:
        words += [*split(link.value.it, link.id), *clause(second)]
        words.append(Token(",", (words[-1].ids[0],), glue=True))
        words += clause(first)
    else:
        words += clause(first)
        if second and link:
            words += [*split(link.value.it, link.id), *clause(second)]
    return [*capitalise(words), Token(".", (END,), glue=True)]


def split(text: str, ident: int) -> list[Token]:
    """One token a word and a mark."""
    tokens = []
    for word in text.split():
        tokens.append(Token(word.rstrip(","), (ident,)))
        if word.endswith(","):
            tokens.append(Token(",", (ident,), glue=True))
    return tokens


def clause(node: Clause, *, gap: str = "") -> list[Token]:
    """Subject, verb group, object, adjunct, adverb."""
    person = node.subject.person
    words: list[Token] = []
    dropped: tuple[int, ...] = ()
    if node.subject.pronoun and not node.subject.pronoun.value.it:
        dropped = (node.subject.pronoun.id,)
    elif gap != "subject":
        words += noun_phrase(node.subject)
    if node.tense == "copula" and node.auxiliary and node.predicate:
        noun = node.subject.noun
        assert noun
        words.append(Token(BE[person], (node.auxiliary.id, *dropped)))
        form = inflect(node.predicate.value.it, noun.value.it_gender, node.subject.plural)
        words.append(Token(form, (node.predicate.id, noun.id)))
        return words
    assert node.verb
    forms, ident = node.verb.value.it, node.verb.id
    if node.tense == "perfect" and node.auxiliary:
        words.append(Token(HAVE[person], (node.auxiliary.id, *dropped)))
        words.append(Token(forms[4], (ident,)))
    elif node.tense == "modal" and node.auxiliary:
        modal = lexicon.MODALS[node.auxiliary.value]["it"][person]
        words.append(Token(modal, (node.auxiliary.id, *dropped)))
        words.append(Token(forms[5], (ident,)))
    else:
        words.append(Token(forms[person], (ident, *dropped)))
    if node.object:
        words += noun_phrase(node.object)
    if node.preposition and node.adjunct:
        words.append(Token(node.preposition.value.it, (node.preposition.id,)))
        words += noun_phrase(node.adjunct)
    if node.adverb:
        words += split(node.adverb.value.it, node.adverb.id)
    return words


def noun_phrase(node: NounPhrase) -> list[Token]:
    """Article, number, noun, adjective, relative clause."""
    simple = node.pronoun or node.name
    if simple:
        return [Token(simple.value.it, (simple.id,))]
    assert node.noun
    noun, ident = node.noun.value, node.noun.id
    text = noun.it[node.plural]
    words = []
    if node.determiner:
        form = article(node.determiner.value, noun.it_gender, node.plural, text)
        if form.endswith("'"):
            words.append(Token(form + text, (ident, node.determiner.id)))
        else:
            words += [Token(part, (node.determiner.id, ident)) for part in form.split()]
            words.append(Token(text, (ident,)))
    else:
        if node.number:
            words.append(Token(node.number.value.it, (node.number.id,)))
        words.append(Token(text, (ident,)))
    for adjective in node.adjectives:
        form = inflect(adjective.value.it, noun.it_gender, node.plural)
        words.append(Token(form, (adjective.id, ident)))
    if node.relative:
        words.append(Token("che", (node.relative.pronoun.id,)))
        words += clause(node.relative.clause, gap=node.relative.gap)
    return words


def article(determiner: str, gender: str, plural: bool, noun: str) -> str:
    """Choose the form by gender, number and the first sound of the noun."""
    vowel = noun[0] in VOWELS
    impure = noun[0] == "z" or (noun[0] == "s" and noun[1] not in VOWELS)
    if determiner == "the":
        if gender == "f":
            return "le" if plural else ("l'" if vowel else "la")
        if plural:
            return "gli" if vowel or impure else "i"
        return "l'" if vowel else ("lo" if impure else "il")
    if determiner == "a":
        if gender == "f":
            return "un'" if vowel else "una"
        return "uno" if impure else "un"
    if determiner in ("this", "these"):
        if plural:
            return "queste" if gender == "f" else "questi"
        return "quest'" if vowel else ("questa" if gender == "f" else "questo")
    if plural:
        return "le nostre" if gender == "f" else "i nostri"
    return "la nostra" if gender == "f" else "il nostro"


def inflect(adjective: str, gender: str, plural: bool) -> str:
    """Endings in -o take four forms, endings in -e two."""
    stem, ending = adjective[:-1], adjective[-1]
    if ending == "e":
        return stem + ("i" if plural else "e")
    if stem.endswith("c") and plural:
        return stem + ("he" if gender == "f" else "i")
    if stem.endswith("g") and plural:
        return stem + ("he" if gender == "f" else "hi")
    if stem.endswith("i") and plural:
        return stem[:-1] + ("ie" if gender == "f" else "i")
    return (
        stem
        + {(False, "m"): "o", (False, "f"): "a", (True, "m"): "i", (True, "f"): "e"}[
            (plural, gender)
        ]
    )
