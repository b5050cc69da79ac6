"""Words that a run relied on before they were over."""

import pytest

from alignatt_agent.types import Word
from lab.relied import Reliance, add_talk


def test_words_count_once_and_by_their_place():
    gold = [Word("one", 0, 0.8), Word("two,", 0.9, 2.1), Word("three.", 2.2, 2.9), Word("4", 9, 10)]
    found = Reliance()
    add_talk(found, gold, [(1.0, ["One"]), (2.0, ["One", "too"]), (3.0, ["One", "two", "three"])])
    assert (found.words, found.early) == (4, 1)
    assert found.waits == pytest.approx([0.2, -0.1, 0.1])
