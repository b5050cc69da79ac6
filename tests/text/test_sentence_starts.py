"""Sentence starts, clauses and unit boundaries in text that grows."""

import pytest

from alignatt_agent.text.marks import ends_clause, is_punctuation
from alignatt_agent.text.sentence_starts import begins_sentence
from alignatt_agent.text.unit_boundaries import boundary_between, split_units


@pytest.mark.parametrize(
    ("code", "before", "text", "begins"),
    [
        ("de", "", " Guten", True),
        ("de", "Guten Tag.", " Wir", True),
        ("de", "„Stimmt das?“", " Sie", True),
        ("de", "Am 3.", " Oktober", False),
        ("de", "Sie fragte „Warum?", "“", False),  # the quotation mark closes the sentence before
        ("de", "Es kostet 3.", "5", False),  # no sentence begins inside a word
        ("zh", "我们开始。", "你", True),
        ("zh", "我们开始", "。", False),
        ("en", "It took 5 km.", " Then", True),
    ],
)
def test_a_sentence_begins_after_the_end_of_another(code, before, text, begins):
    assert begins_sentence(before, text, code) is begins


def test_marks_that_close_a_clause():
    for text in ("Haus,", "Haus.“", "casa!»", "家。」", "بيت؟", "घर।"):
        assert ends_clause(text)
    for text in ("Haus", "„Haus“", "3.5", ""):
        assert not ends_clause(text)
    assert all(map(is_punctuation, (" .", "“", "。」", "?!")))
    assert not any(map(is_punctuation, ("", " ", "-", "„", "a.")))


def test_units_of_scripts():
    assert split_units(" Das \n Haus.", spaced=True) == (" Das", " Haus.")
    assert split_units("用GPU训练。", spaced=False) == ("用", "GPU", "训", "练", "。")
    assert boundary_between("训", "练")
    assert not boundary_between("GP", "U")
