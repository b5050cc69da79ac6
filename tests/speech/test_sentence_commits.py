"""When a sentence is finally closed: the paper's rule, and one for real transcripts."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.speech.sentence_commits import committed, overflow_commit
from alignatt_agent.types import Word
from tests.speech.recognizer_errors import CHUNKS_MS, ErrorModel, make_talk, simulate, stream


def heard(text: str, ends: Sequence[float], at: float, since: float = 0.0) -> Hypothesis:
    """Words of 0.3 s, the first ones said since then, the last one since now."""
    words = [Word(w, end - 0.3, end) for w, end in zip(text.split(), ends, strict=True)]
    return Hypothesis(tuple(words), tuple(ends), (since,) * len(words), at, since)


@pytest.mark.parametrize(
    ("text", "ends", "at", "hold_back_s", "agreed", "ended"),
    [
        # A sentence end needs two following words, or time.
        ("it works. then", (1, 1.5, 1.9), 2, 0, 2, 0),
        ("it works. then we", (1, 1.5, 1.9, 2), 2, 0, 2, 2),
        ("it works.", (1, 2.05), 2, 0, 2, 0),  # the last word goes on
        ("it works.", (1, 1.5), 3.4, 0, 2, 0),
        ("it works.", (1, 1.5), 3.5, 0, 2, 2),
        ("since 1989.", (1, 1.5), 3.5, 0, 0, 2),  # a pause: no decimal follows
        ("it works. then", (1, 1.5, 3.7), 3.9, 0, 2, 0),  # the pause is over
        ("it works. then", (1, 1.5, 3.8), 3.9, 0, 2, 2),
        # A long pause ends what two hypotheses agree on.
        ("it might", (1, 1.5), 4.4, 0, 0, 0),
        ("it might", (1, 1.5), 4.5, 0, 0, 2),
        ("it might rain", (1, 1.5, 4.7), 4.9, 0, 0, 0),
        ("it might rain", (1, 1.5, 4.8), 4.9, 0, 0, 2),
        ("it works. it might", (0.5, 0.9, 1, 1.5), 4.5, 0, 2, 4),
        # Committed words are as old as the hold-back; the paper's rule has none.
        ("it works. then we", (1, 1.5, 1.9, 2), 2, 0.5, 2, 2),
        ("it works. then we", (1, 1.5, 1.9, 2), 2, 0.6, 2, 0),
    ],
)
def test_what_is_committed_by_the_papers_rule_and_by_ours(
    text, ends, at, hold_back_s, agreed, ended
):
    tail = heard(text, ends, at)
    assert committed(tail, "agreed", hold_back_s) == agreed
    assert committed(tail, "ended", hold_back_s) == ended
    once = heard(text, ends, at, since=at)
    assert committed(once, "agreed", hold_back_s) == committed(once, "ended", hold_back_s) == 0


def test_what_two_hypotheses_say_is_stable_and_a_new_period_waits():
    tail = heard("it works.", (1.0, 1.5), at=3.5, since=3.1)
    assert committed(tail, "agreed", 0.0) == 2
    assert committed(tail, "ended", 0.0) == 0
    assert (tail.stable, tail.revised(tail.words, tail.ends, 3.6, 3.5).stable) == (2, 2)


def test_an_end_that_stands_is_closed_though_a_word_before_it_is_heard_anew_every_time():
    def again(last, name, ends, at):
        words = heard(f"hello {name} left. then we", ends, at).words
        return last.revised(words, ends, at, last.at)

    ends = (0.5, 1.0, 1.5, 2.2, 2.6)
    first = again(Hypothesis(), "Ann", ends, 2.8)
    young = again(first, "Dan", ends, 2.9)
    assert (young.stable, committed(young, "ended", 0.0)) == (1, 0)
    late = again(young, "Jan", ends, 3.0)
    assert committed(late, "ended", 0.0) == 3
    assert committed(late, "agreed", 0.0) == 0
    assert committed(again(Hypothesis(), "Ann", ends, 3.0), "ended", 0.0) == 0  # heard once
    elsewhere = again(young, "Jan", (0.5, 0.7, 0.9, 2.2, 2.6), 3.0)
    assert committed(elsewhere, "ended", 0.0) == 0
    word = heard("hello Ann left", ends[:3], 2.8)
    assert committed(again(word, "Dan", ends, 3.0), "ended", 0.0) == 0  # had no end there


def test_forced_commits_leave_the_word_that_may_go_on():
    tail = heard("one two three", (1.0, 2.0, 2.96), at=3.0)
    assert overflow_commit(tail, 0.0, old=0.0) == 2
    assert overflow_commit(tail, 1.5, old=0.0) == 1
    assert overflow_commit(tail, 1.5, old=2.5) == 2


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk_ms=st.sampled_from(CHUNKS_MS),
    hold_back_ms=st.sampled_from([0, 100, 250, 1000]),
    stable_only=st.booleans(),
    rates=st.fixed_dictionaries(dict.fromkeys(("period", "guess", "capital"), st.floats(0, 1))),
)
def test_no_error_makes_ended_commits_wrong(seed, chunk_ms, hold_back_ms, stable_only, rates):
    waits = {"hold_back_ms": hold_back_ms, "stable_only": stable_only}
    found = simulate(seed, 4, chunk_ms, rates, **waits)
    assert (found.lost, found.doubled, found.early, found.shifted, found.cuts) == (0, 0, 0, 0, 0)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk_ms=st.sampled_from(CHUNKS_MS),
    rule=st.sampled_from(["agreed", "ended"]),
    guess=st.floats(0, 1),
)
def test_forced_commits_never_double_a_word(seed, chunk_ms, rule, guess):
    rng = random.Random(seed)
    # Without a full stop every commit is forced.
    talk = [Word(w.text.rstrip("."), w.start, w.end) for w in make_talk(rng, 5)]
    errors = ErrorModel(talk, seed, period=0.0, guess=guess, capital=0.0)
    found = stream(errors, chunk_ms, commit=rule, max_tail_s=5.0)
    assert (found.lost, found.doubled, found.cuts) == (0, 0, 0)
    assert found.open_s <= 2 * 5.0 + 3.0  # the open utterance, a pause, the tail


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_commits_in_a_talk_with_all_errors(chunk_ms):
    old = simulate(1, 15, chunk_ms, commit="agreed", hold_back_ms=100)
    new = simulate(1, 15, chunk_ms, commit="ended", hold_back_ms=100)
    assert (new.lost, new.doubled, new.early, new.cuts) == (0, 0, 0, 0)
    assert new.false_ends <= old.false_ends
    if chunk_ms <= 250:  # two hypotheses agree on a guess
        assert old.early > 0
        assert new.false_ends < old.false_ends / 4
    if chunk_ms == 100:
        assert old.doubled > 0
    if chunk_ms <= 500:  # longer ones take two chunks to agree
        assert np.percentile(new.delays, 95) <= 2.5
