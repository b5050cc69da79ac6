"""Verification of expected tokens, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.engine.row_requests import EXTRA, Ledger, capture_request
from alignatt_agent.engine.speech_models import AudioModel
from alignatt_agent.engine.verify import Due, Expected, read_greedy
from tests.engine.test_early_stop import processor
from tests.engine.test_row_requests import request, step

PROMPT = [3, 1, 4, 1, 5]


def fed(expected: Expected, best, chunks, computed=0) -> None:
    """Feed a prompt in chunks to a model that says ``best`` after its positions."""
    for count in chunks:
        due = expected.due(computed, count)
        assert all(computed <= position < computed + count for position in due)
        expected.note([best[position - expected.begin] for position in due])
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


def test_a_request_that_starts_again_goes_on_where_it_was_or_admits_the_gap():
    for again, covered in ((0, True), (6, True), (7, False)):
        expected = Expected([7, 8, 9], 8)
        fed(expected, [7, 8, 9], [6])  # positions 4 and 5 are seen
        assert list(expected.due(again, 8 - again)) == ([6] if covered else [])
        assert expected.covered == covered
        assert (expected.agreed, expected.next_token) == (2, None)


def test_a_gate_that_closes_among_them_hides_what_follows():
    expected = Expected([7, 8, 9], 8)
    expected.note([7, 8, 9])
    assert (expected.agreed, expected.over) == (3, False)
    expected.cut(7)  # the row of a token that was sampled after them
    assert (expected.agreed, expected.over) == (3, False)
    expected.cut(6)
    assert (expected.agreed, expected.next_token, expected.over) == (2, 9, True)
    # A row behind a token that the model does not say is no row of this draft.
    other = Expected([7, 8, 9], 8)
    other.note([7, 5, 9])
    assert [other.holds(position) for position in (4, 5, 6)] == [True, True, False]
    other.cut(4)
    assert (other.agreed, other.next_token) == (0, 7)


# ---------------------------------------------------------------------- the model's greedy tokens
class Model:
    """Scores token ``10 h`` highest at hidden state ``h``; no rank but the last has scores."""

    def __init__(self, last=True):
        self.last = last

    def compute_logits(self, hidden):
        return torch.nn.functional.one_hot(10 * hidden[:, 0].long(), 100) if self.last else None


def runner(version, last=True):
    """The model runners of vLLM, as far as they are read; two requests, and padding."""
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
    due = [Due(first, "a", 11, first.due(11, 3)), Due(second, "b", 7, second.due(7, 2))]
    read_greedy(runner(version), {"a": 3, "b": 2}, due)
    assert (first.agreed, first.next_token) == (0, 30)
    assert (second.agreed, second.over) == (1, False)


def test_a_rank_without_scores_notes_nothing():
    expected = Expected([40, 50], 14)
    read_greedy(runner(1, last=False), {"a": 3, "b": 2}, [Due(expected, "a", 11, range(11, 13))])
    assert (expected.agreed, expected.over) == (0, False)


# ---------------------------------------------------------------------- in a worker
def asked(name, tokens, computed=0, **wanted):
    new = request(name, computed, expected=tokens, **wanted)
    new.prompt_token_ids = [*range(9), *tokens]
    new.sampling_params.stop_token_ids = [3, 7]
    return new


def test_a_ledger_says_what_is_due_and_owes_no_rows_once_a_request_is_over():
    ledger = Ledger()
    a = "a-random"
    ledger.schedule(step([asked("a", [5, 6])], counts={a: 6}))
    assert ledger.due == []
    ledger.schedule(step(cached=[(a, None, 6)], counts={a: 3}))
    (due,) = ledger.due
    assert (due.request, due.computed, list(due.positions)) == (a, 6, [8])
    due.expected.note([4])
    assert ledger.schedule(step(cached=[(a, None, 9)], counts={a: 2})) == []
    assert ledger.due == []
    live = ledger.take("a")
    assert (live.over, live.over_before_sampling) == (True, True)


def sampled(new) -> int:
    """What comes of a step in which the model says token 2."""
    process = processor(new.sampling_params)
    return int(process([], torch.nn.functional.one_hot(torch.tensor(2), 10).float()).argmax())


@pytest.mark.parametrize(("says", "forced"), [([5, 6], False), ([5, 4], True), ([8], True)])
def test_a_request_ends_where_the_model_says_something_else(says, forced):
    ledger, new = Ledger(), asked("a", [5, 6])
    ledger.schedule(step([new], counts={"a-random": 11}))
    ledger.due[0].expected.note(says)
    assert sampled(new) == (3 if forced else 2)
    live = ledger.take("a")
    assert live.next_token is None  # what is sampled behind another token says nothing


def test_a_request_whose_positions_were_cached_ends_at_once():
    ledger, new = Ledger(), asked("a", [5, 6], computed=9)
    ledger.schedule(step([new], counts={"a-random": 2}))
    assert ledger.due == []
    assert sampled(new) == 3
    expected = ledger.take("a").expected
    assert (expected.agreed, expected.next_token) == (0, None)


# ---------------------------------------------------------------------- a transcript
class Served:
    """A model whose whole answer is a function of nothing; it can be asked to verify."""

    name = "asr model fake"
    config = SimpleNamespace(
        hf_config=None, max_model_len=100, try_get_generation_config=lambda: {"eos_token_id": [1]}
    )

    def __init__(self, answer, cached=()):
        self.answer, self.cached = [*answer, 1], set(cached)
        self.asked, self.found = [], None

    def tokenizer(self):
        return SimpleNamespace(eos_token_id=1)

    def processor(self):
        return None

    def generate(self, prompt, sampling):
        said = prompt["prompt_token_ids"][len(PROMPT) :]
        self.asked.append((said, sampling.max_tokens))
        expected = (sampling.extra_args or {EXTRA: capture_request("")})[EXTRA]["expected"]
        begun = len(said) - len(expected)
        best = self.answer[begun : begun + len(expected)]
        verified = Expected(expected, len(prompt["prompt_token_ids"]))
        cached = len(self.asked) in self.cached
        fed(verified, [*best, *[0] * 50], [100], len(PROMPT) + 1 if cached else 0)
        self.found = [], b"", verified.next_token, 0.0, verified.agreed, False
        rest = [1] if verified.over else self.answer[len(said) :][: sampling.max_tokens]
        reason = "stop" if rest[-1:] == [1] else "length"
        completion = SimpleNamespace(token_ids=rest, finish_reason=reason)
        return SimpleNamespace(outputs=[completion])

    def ask_workers(self, method, key):
        return [self.found]


@settings(max_examples=300, deadline=None)
@given(
    answer=st.lists(st.integers(2, 3), max_size=8),
    expected=st.lists(st.integers(2, 3), max_size=12),
    most=st.integers(1, 10),
    cached=st.booleans(),
)
def test_an_answer_is_the_same_whatever_was_expected_and_keeps_its_bound(
    answer, expected, most, cached
):
    plain = AudioModel(Served(answer)).generate(PROMPT, np.zeros(0), most)
    served = Served(answer, cached=[1] if cached else [])
    verified = AudioModel(served).generate(PROMPT, np.zeros(0), most, expected)
    assert (verified.token_ids, verified.ended) == (plain.token_ids, plain.ended)
    assert verified.requests == len(served.asked) <= 2
    assert all(len(said) + room == most for said, room in served.asked)
