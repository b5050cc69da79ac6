"""Verification of expected tokens, without an engine."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.engine.draft_verification import Expected, read_greedy

PROMPT = [3, 1, 4, 1, 5]


def fed(expected: Expected, best, chunks, computed=0) -> None:
    """Feed a prompt in chunks to a model whose greedy tokens are ``best``."""
    for count in chunks:
        due = expected.due(computed, count)
        assert all(0 <= place < count for place in due)
        expected.note([best[computed + place - expected.begin] for place in due])
        computed += count


@settings(max_examples=300, deadline=None)
@given(
    tokens=st.lists(st.integers(0, 1), min_size=1, max_size=6),
    best=st.lists(st.integers(0, 1), min_size=6, max_size=6),
    cuts=st.lists(st.integers(1, 5), min_size=12, max_size=12),
    cached=st.integers(0, 10),
)
def test_what_agrees_is_the_common_prefix_however_the_prompt_is_fed(tokens, best, cuts, cached):
    length = len(PROMPT) + len(tokens)
    expected = Expected(tokens, length)
    cached = min(cached, length - 1)
    fed(expected, best, cuts, cached)
    pairs = enumerate(zip(tokens, best, strict=False))
    same = next((i for i, (token, said) in pairs if token != said), len(tokens))
    if cached > len(PROMPT) - 1:  # a position that predicts one of them was not computed
        assert (expected.agreed, expected.next_token, expected.over) == (0, None, True)
    else:
        assert expected.agreed == same
        assert expected.over == (same < len(tokens))
        assert expected.next_token == (best[same] if same < len(tokens) else None)


# ---------------------------------------------------------------------- the model's greedy tokens
class Model:
    """Scores token ``10 h`` highest at hidden state ``h``; only the last rank has scores."""

    def __init__(self, last=True):
        self.last = last

    def compute_logits(self, hidden):
        return torch.nn.functional.one_hot(10 * hidden[:, 0].long(), 100) if self.last else None


def runner(version, last=True):
    """Return a model runner of vLLM with the fields that are read: two requests, and padding."""
    batch = SimpleNamespace(req_ids=["b", "a"])
    hidden = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0], [9.0], [9.0]])
    if version == 1:
        state = SimpleNamespace(hidden_states=hidden)
        return SimpleNamespace(execute_model_state=state, input_batch=batch, model=Model(last))
    state = SimpleNamespace(hidden_states=hidden, input_batch=batch)
    return SimpleNamespace(execute_model_state=state, model=Model(last))


@pytest.mark.parametrize("version", [1, 2])
def test_the_rows_of_a_batch_are_found_in_the_order_of_its_requests(version):
    first, second = Expected([40, 50], 14), Expected([10], 9)
    due = {"a": (first, first.due(11, 3)), "b": (second, second.due(7, 2))}
    read_greedy(runner(version), {"a": 3, "b": 2}, due)
    assert (first.agreed, first.next_token) == (0, 30)
    assert (second.agreed, second.over) == (1, False)


def test_a_rank_without_scores_notes_nothing():
    expected = Expected([40, 50], 14)
    read_greedy(runner(1, last=False), {"a": 3, "b": 2}, {"a": (expected, range(2))})
    assert (expected.agreed, expected.over) == (0, False)
