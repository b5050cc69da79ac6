"""Text of a chat model after a line break is not part of the translation."""

import numpy as np
import pytest

from alignatt_agent.translation.drafter import first_line
from alignatt_agent.types import AttentionRows, Draft
from tests.fakes.models import PieceTokenizer


@pytest.mark.parametrize(
    ("before", "pieces", "kept"),
    [
        (" Der", " Hund bellt.|\n\n|This translation|", " Hund bellt."),
        ("", "Gut|.\n\n| Note", "Gut|."),  # one token ends the text and the line
        ("", "\n|Gut|.", "\n|Gut|."),  # before the text it ends nothing
        (" Gut", ".\n", "."),
        (" Gut.", "\nIt means", ""),
    ],
)
def test_a_line_break_ends_a_draft(before, pieces, kept):
    tokenizer = PieceTokenizer()
    ids = tokenizer.ids(*filter(None, pieces.split("|")))
    rows = np.arange(len(ids), dtype=np.float32)
    rows = AttentionRows(rows[:, None, None], rows[:, None], rows[:, None])
    draft = Draft(ids, False, rows, probabilities=tuple(np.linspace(0, 1, len(ids))))
    found = first_line(
        draft,
        tokenizer.ids(before),
        tokenizer.decode,
        lambda text: tokenizer.ids(text) if text else (),
    )
    wanted = tokenizer.ids(*filter(None, kept.split("|")))
    assert found.token_ids == wanted
    assert found.ended == (found.token_ids != ids)
    assert len(found.rows.source) == len(found.probabilities) == len(wanted)
    assert found.rows.suffix[:, 0].tolist() == [*range(len(wanted))]
