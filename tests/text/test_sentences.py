"""Where sentences end."""

import re

import pytest

from alignatt_agent.config.languages import LANGUAGES
from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.text.running_text import split_words
from alignatt_agent.text.sentences import ends_sentence, split_sentences
from alignatt_agent.types import Word


@pytest.mark.parametrize(
    ("words", "always", "before_a_capital"),
    [
        ('done. done? done! "Done." done.” (done.) 好。 好？」 I. MT. Hmm. me. .', True, True),
        ("done done, done; e.g. (i.e. 3.5 Dr. Mr. J. U.S. figs. vs. Ph.D. so...", False, False),
        ("3. GPT-4. 2019. a.m. etc. Fig. Prof.", False, True),
    ],
    ids=["sentences", "no sentences", "numbers and what may abbreviate"],
)
def test_what_ends_a_sentence(words, always, before_a_capital):
    for word in words.split():
        for following in (None, "million", "5"):
            assert ends_sentence(word, following) == always, word
        for following in ("Then", "“Then"):
            assert ends_sentence(word, following) == before_a_capital, word


ROWS = re.findall(
    r"^\| ([a-z]{2,3}) \| ([^|]+) \|$",
    (CHECKOUT_ROOT / "docs" / "languages.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("language", "text"), ROWS, ids=[row[0] for row in ROWS])
def test_the_sentences_of_the_documentation_end_where_it_says(language, text):
    written = [split_words(sentence) for sentence in text.split(" ‖ ")]
    words = [Word(word, 0.0, 0.0) for sentence in written for word in sentence]
    found, rest = split_sentences(words, "", language)
    ends = [*found, rest] if language == "th" else found
    assert [[word.text for word in sentence] for sentence in ends] == written


def test_a_pause_ends_numbers_and_what_may_abbreviate_in_every_spoken_language():
    assert [row[0] for row in ROWS] == [item.code for item in LANGUAGES if item.heard]
    assert all(ends_sentence(*case) for case in [("2019.", ""), ("art.", "", "fr")])
    goes_on = [("19.", "", "de"), ("Dr.", "", "fr"), ("Art.", None, "de"), ("is;", "Then")]
    assert not any(ends_sentence(*case) for case in goes_on)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "„Stimmt das?“ ‖ Sie nickte."),
        ("cs", "„Opravdu?“ ‖ Přikývla."),
        ("en", "“Is that so?” ‖ “Yes.” ‖ She nodded."),
    ],
)
def test_a_quotation_ends_its_sentence(language, text):
    written = [sentence.split() for sentence in text.split(" ‖ ")]
    words = [Word(word, 0.0, 0.0) for sentence in written for word in sentence]
    sentences, rest = split_sentences(words, "", language)
    assert [[word.text for word in sentence] for sentence in sentences] == written
    assert not rest
