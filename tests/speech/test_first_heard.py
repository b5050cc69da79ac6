"""Word times from the hypotheses in which words first appear."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.first_heard import GUESSED_S, LETTER_S, first_heard
from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.types import Word
from tests.speech.recognizer_errors import CHUNKS_MS, simulate


def hear(*hypotheses):
    """Process one hypothesis per second; return the last one."""
    tail = Hypothesis()
    for now, text in enumerate(hypotheses, 1):
        texts = text.split()
        spans, ends = first_heard(tail, texts, 0.0, now - 1.0, float(now))
        words = [Word(word, *span) for word, span in zip(texts, spans, strict=True)]
        tail = tail.revised(words, ends, float(now), now - 1.0)
    return tail


L, G = LETTER_S, GUESSED_S


@pytest.mark.parametrize(
    ("hypotheses", "times", "ends"),
    [
        # Words before a complete word ended earlier; the last word may continue.
        (["ab cd efgh"], [0, 0.25, 0.5, 1], [1 - 2 * L, 1, 1 + G]),
        # Unchanged words keep their times, even with another mark or letter case.
        (["ab cd.", "Ab cd, ef gh"], [0, 0.5, 1, 1.5, 2], [1, 1 + G, 2, 2 + G]),
        # The last word ends some time after it was first heard.
        (["ab cd", "ab cd", "ab cd"], [0, 0.5, 1], [1, 1 + G]),
        # A guess is revised: different words follow from there on.
        (["ab cd", "ab ce fg"], [0, 0.5, 1.25, 2], [1, 2, 2 + G]),
        # After a revision all words are new, but may have ended long ago.
        (["ab cd ef", "xb cd ef gh"], [0, 1 / 3, 2 / 3, 1, 2], [2 - 4 * L, 2 - 2 * L, 2, 2 + G]),
        # A word that later appears before the others takes half of the time of the first one.
        (["ab cd", "xy ab cd"], [0, 0.25, 0.5, 1], [2 - 2 * L, 2, 2 + G]),
        # The first word.
        (["ab"], [0, 1], [1 + G]),
    ],
)
def test_times_and_ends(hypotheses, times, ends):
    tail = hear(*hypotheses)
    assert [word.start for word in tail.words] == pytest.approx(times[:-1])
    assert [word.end for word in tail.words] == pytest.approx(times[1:])
    assert list(tail.ends) == pytest.approx(ends)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk_ms=st.sampled_from(CHUNKS_MS),
    hold_back_ms=st.sampled_from([0, 100, 500]),
    guess=st.floats(0, 1),
)
def test_nothing_is_relied_on_before_it_is_over(seed, chunk_ms, hold_back_ms, guess):
    found = simulate(seed, 4, chunk_ms, {"guess": guess}, aligned=False, hold_back_ms=hold_back_ms)
    assert (found.relied, found.early) == (0, 0)


def test_few_words_are_lost_or_doubled_where_cuts_are_not_exact():
    found = simulate(1, 25, 500, aligned=False)
    assert found.lost + found.doubled <= found.words / 100
