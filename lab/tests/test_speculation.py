"""What is proposed to vLLM's speculative decoding, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lab.tests.test_gpu_scripts import load_script

last_transcript = load_script("lab/bench/cpu/last_transcript.py")


@pytest.fixture
def proposer(tmp_path, monkeypatch):
    monkeypatch.setenv(last_transcript.FOLDER, str(tmp_path))
    settings = SimpleNamespace(num_speculative_tokens=3)
    return last_transcript.Proposer(SimpleNamespace(speculative_config=settings))


def propose(proposer, ids, sampled):
    return proposer.propose([sampled], [len(ids)], np.array([[*ids, 0, 0]]))[0]


def test_what_was_said_last_is_proposed_until_it_differs(proposer):
    assert propose(proposer, [1, 8, 9, 20], [20]) == []
    last_transcript.expect([8, 9], [20, 21, 22, 23, 24])
    assert propose(proposer, [1, 8, 9, 20], [20]) == [21, 22, 23]
    assert propose(proposer, [8, 9, 1, 8, 9, 20, 21, 22, 23], [21, 22, 23]) == [24]
    assert propose(proposer, [1, 8, 9, 20, 30], [30]) == []
    assert propose(proposer, [1, 8, 9, 20, 30, 22], [22]) == []
    assert propose(proposer, [1, 8, 9], []) == []
    assert propose(proposer, [5, 6, 7], [7]) == []
    assert last_transcript.passes() == 7
