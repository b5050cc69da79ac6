"""Requests at once, one after the other, and refused ones."""

from __future__ import annotations

import pytest

from alignatt_agent.types import EngineError, Prompt
from alignatt_agent.types.engines import Readout
from tests.engine.batches import cases, check_rows, check_same, together
from tests.fixtures.engines import HEADS, make_prompt

PREDICTING = Readout(HEADS, "predicting")
EMITTED = Readout(HEADS, "emitted")


def test_rows_are_refused_rather_than_wrong(engines):
    good = make_prompt(6, 40, 5, 10)
    with pytest.raises(EngineError, match=r"heads \[\(3, 0\)\] were asked for"):
        engines.translation.draft(good, 4, Readout(((3, 0),), "emitted"))
    with pytest.raises(EngineError, match="source span 35:45 is not inside"):
        engines.translation.draft(Prompt(good.token_ids, 35, tuple(range(10))), 4, EMITTED)
    with pytest.raises(EngineError, match="source span 5:5"):
        engines.translation.draft(Prompt(good.token_ids, 5, ()), 4, EMITTED)
    with pytest.raises(EngineError, match="longer than|maximum context length|max_model_len"):
        engines.translation.draft(make_prompt(6, 5000, 5, 10), 4, EMITTED)
    assert engines.translation.draft(good, 4, EMITTED).rows is not None


def test_drafts_at_once_are_those_of_one_after_the_other(engines, reference):
    batch = cases(40)  # the engine runs 32 requests at once
    alone = [case.run(engines.translation) for case in batch]
    assert any(draft.cut for draft in alone)
    for _ in range(2):
        crowd = together(engines.translation, batch)
        for case, draft, expected in zip(batch, crowd, alone, strict=True):
            check_same(case, draft, expected)
    for case, draft in zip(batch[:9], crowd, strict=False):
        check_rows(reference, case, draft)
