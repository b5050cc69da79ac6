"""Times of the words of a transcript."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.word_times import time_words
from alignatt_agent.types.engines import AlignedItem


def timed(text):
    """Read ``word@start-end word@start-end``."""
    written = [item.partition("@") for item in text.split()]
    return [AlignedItem(word, *map(float, times.split("-"))) for word, _, times in written]


@pytest.mark.parametrize(
    ("words", "items", "duration", "times"),
    [
        ("Hello, — world!", "hello@0.1-0.4 WORLD@0.6-0.9", 1, "@0.1-0.4 @0.4-0.6 @0.6-0.9"),
        (
            "state-of-art is cannot",
            "state@0-0.5 of@0.5-0.7 art@0.7-1 is@1.2-1.4 can@1.5-1.7 not@1.7-2",
            2,
            "@0-1 @1.2-1.4 @1.5-2",
        ),
        ("fif ty x", "fifty@1-2 x@2.5-3", 3, "@1-1.6 @1.6-2 @2.5-3"),  # by characters, 3 of 5
        ("a bb c dd", "a@0-0.4 dd@1-1.2", 2, "@0-0.4 @0.4-0.8 @0.8-1 @1-1.2"),
        ("aa bb", "", 2, "@0-1 @1-2"),
        ("", "a@0-1", 2, ""),
        ("cut", "cut@0.9-1.28", 1, "@0.9-1.28"),  # past the audio
        ("a b", "a@nan-0.5 b@1-2", 2, "@0-1 @1-2"),
    ],
)
def test_times_follow_the_text_not_the_index(words, items, duration, times):
    spans = time_words(words.split(), timed(items), duration)
    assert [time for span in spans for time in span] == pytest.approx(
        [time for item in timed(times) for time in (item.start, item.end)]
    )


TIME = st.one_of(st.floats(-1, 12), st.sampled_from([math.nan, math.inf]))


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "b,", "C-d", "3.5", "—", "好吗"]), max_size=8),
    found=st.lists(
        st.builds(AlignedItem, st.sampled_from(["a", "b", "cd", "c", "d", "", "zz"]), TIME, TIME),
        max_size=8,
    ),
    duration=st.floats(0.1, 10),
)
def test_times_are_in_order_for_any_alignment(words, found, duration):
    spans = time_words(words, found, duration)
    assert len(spans) == len(words)
    flat = [time for span in spans for time in span]
    assert flat == sorted(flat)
    assert all(time >= 0 and math.isfinite(time) for time in flat)
