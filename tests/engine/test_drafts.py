"""How answers of several workers become the rows of one draft."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.types import EngineError, Prompt
from alignatt_agent.types.engines import Readout

HEADS = ((0, 1), (2, 3))
PROMPT = Prompt((5, 6, 7, 8), 1, (0, 1))
PREDICTING = Readout(HEADS, "predicting")


class Workers:
    """A served model whose workers answer as told."""

    name = "fake model"

    def __init__(self, *answers, tokens=(11, 12)):
        self.answers = answers
        self.tokens = tokens

    def generate(self, prompt, sampling):
        completion = SimpleNamespace(token_ids=self.tokens, finish_reason="length")
        return SimpleNamespace(outputs=[completion])

    def ask_workers(self, method, key):
        return list(self.answers)


def part(head: int | slice, rows: int = 2, value: float = 0.25):
    """Rows of one head, ``[rows, 2 heads, 2 masses + 2 source tokens]``."""
    array = np.zeros((rows, 2, 4), np.float32)
    array[:, head] = value
    return list(array.shape), array.tobytes(), None, 0.5, 0, False


NO_HEADS = ([], b"", None, 0.0, 0, False)


def draft(*answers):
    return DraftEngine(Workers(*answers), HEADS, frozenset({1})).draft(PROMPT, 2, PREDICTING)


def test_ranks_add_their_heads():
    drafted = draft(part(0), part(1))
    rows = drafted.rows
    assert drafted.replay_s == 0.5  # side by side
    assert (rows.source == 0.25).all()
    assert (rows.prompt == 0.25).all()


@pytest.mark.parametrize("order", [1, -1])
def test_a_rank_without_heads_adds_nothing(order):
    answers = [part(slice(None)), NO_HEADS][::order]
    assert (draft(*answers).rows.source == 0.25).all()


NO_ROWS = ([0, 2, 4], b"", None, 0.0, 0, False)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((part(0), NO_ROWS), r"shapes \(2, 2, 4\) and \(0, 2, 4\)"),
        ((NO_ROWS,), "0 attention rows came for 2 tokens"),
        ((NO_HEADS, NO_HEADS), "no worker captures the heads"),
        ((part(0), None), "does not know the request"),
        ((part(0, value=float("nan")),), r"draft tokens \[0, 1\] were not captured"),
    ],
)
def test_missing_answers_are_errors(answers, message):
    with pytest.raises(EngineError, match=message):
        draft(*answers)
