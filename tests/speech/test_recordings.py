"""What real models recognized, from ``ALIGNATT_FIXTURES``: commits at pauses of recorded talks."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.speech.recognizer_errors import ErrorModel, recorded_talks, stream

FOLDER = Path(os.environ.get("ALIGNATT_FIXTURES", "not set"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs recordings: set ALIGNATT_FIXTURES to their folder"
)


@pytest.mark.parametrize("chunk_ms", [250, 500])
def test_one_false_end_in_a_hundred_sentences(chunk_ms):
    """Only pieces with a long pause inside a sentence can have one."""
    talks = recorded_talks(FOLDER / "talk_pauses.json")
    sentences = sum(word.text.endswith(".") for talk in talks for word in talk)
    false_ends = heard = 0
    for number, talk in enumerate(talks):
        inside = (pair for pair in pairwise(talk) if not pair[0].text.endswith("."))
        if max(after.start - word.end for word, after in inside) >= 0.8:
            found = stream(talk, ErrorModel(talk, number), chunk_ms, hold_back_ms=100)
            assert (found.doubled, found.early, found.cuts) == (0, 0, 0)
            assert found.lost <= 1  # a whole word may be as short as the rest of one
            false_ends, heard = false_ends + found.false_ends, heard + 1
    assert heard >= 10
    assert false_ends <= sentences / 100
