"""Loops of models, as opposed to repetitions of speakers."""

import pytest

from alignatt_agent.text.repetition import loop_start, most_copies
from alignatt_agent.text.running_text import split_words


@pytest.mark.parametrize(
    ("before", "part", "times"),
    [
        ("", "Sie sollten sie nur in German: ", 5),
        ("", "ha ", 100),
        ("", "哈", 19),
        ("So it ends. ", "Thank you. ", 19),
        ("", "This sentence is already in German, so that it needs no translation. ", 4),
    ],
)
def test_a_loop_begins_where_its_part_was_said_once(before, part, times):
    words, once = split_words(before + part * times), split_words(before + part)
    start = loop_start(words)
    assert words[:start] == once
    assert loop_start(words[:-1]) == start  # the last part need not be whole
    assert loop_start(once) is None


@pytest.mark.parametrize(
    "said",
    [
        "very, very, very good",
        "no " * 8,
        "Yes we can. " * 4,
        "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
        "one million , 000 , 000 , 000 , 000",
        "So she said it, and he said it, and they said it, and we said it",
        "",
        "不是" * 8,
        "なるほど" * 8,
        "谢谢，" * 8,
        "ไม่" * 8,
        "नहीं " * 8,
        "strašně, " * 8,
    ],
)
def test_what_speakers_repeat_is_no_loop(said):
    assert loop_start(split_words(said)) is None


@pytest.mark.parametrize(
    ("said", "copies"),
    [
        ("So no, No, no. And", 3),
        ("yes we can, yes we can! Yes we can", 3),
        ("我不是不是不是", 3),
        ("a b c", 1),
        ("... ... ...", 1),
        ("", 1),
    ],
)
def test_how_often_a_speaker_says_it(said, copies):
    assert most_copies(split_words(said)) == copies
