"""Attention rows as a library: the example of docs/engine.md on a real engine."""

import re

import numpy as np
import pytest

from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.engine import library
from alignatt_agent.engine.library import AttentionEngine
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import Prompt
from alignatt_agent.types.engines import Readout
from tests.fixtures.engines import HEADS

PUBLISHED = '"Qwen/Qwen3-1.7B", heads=[(14, 3), (20, 7)]'


@pytest.fixture
def started(engines, runtime, monkeypatch):
    """Return the models that are started, and shutdowns; the shared engine is never ended."""
    found = []

    def start(role, model, heads):
        assert (role, heads) == ("translation", HEADS)
        found.append(model)
        return runtime.served["translation"]

    monkeypatch.setattr(library, "start_model", start)
    monkeypatch.setattr(ServedModel, "shutdown", lambda _: found.append("shut down"))
    return found


def test_the_documented_example_runs(started, checkpoints, capsys):
    text = (CHECKOUT_ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(code.splitlines()) <= 20
    assert PUBLISHED in code
    model = f"{str(checkpoints / 'gemma4')!r}, heads={HEADS}, engine={{'max_num_seqs': 4}}"
    exec(code.replace(PUBLISHED, model), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16
    assert all(" attends to [" in line for line in lines)
    asked, end = started
    assert (asked.engine, end) == ({"max_num_seqs": 4}, "shut down")


@pytest.mark.parametrize("row", ["emitted", "predicting"])
def test_rows_are_whole_and_those_of_transformers(started, reference, row):
    ids = np.random.default_rng(5).integers(6, 500, 30).tolist()
    with AttentionEngine("there", HEADS) as engine:
        for span in (None, (4, 12)):
            answer = engine.generate(ids, 6, span, row)
            start, end = span or (0, 30)
            assert answer.rows.source.shape == (6, len(HEADS), end - start)
            prompt = Prompt(tuple(ids), start, tuple(range(end - start)))
            expected = reference.rows(prompt, answer.token_ids, Readout(HEADS, row))
            assert np.abs(answer.rows.source - expected.source).max() <= 1e-4
            total = answer.rows.source.sum(-1) + answer.rows.prompt + answer.rows.suffix
            assert np.allclose(total, 1, atol=1e-4)
