"""Expected tokens never change a draft; missing answers of workers are errors."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.speech_models import AudioModel
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types import EngineError, Prompt
from alignatt_agent.types.engines import DraftRequest, Readout
from tests.fakes.engine import STOP, SimulatedModel

HEADS = ((0, 1), (2, 3))
PROMPT = Prompt((2, 3, 4, 2, 3, 4, 4, 2), 2, (0, 0, 1, 2))
ROWS = ("predicting", "emitted")
POLICIES = (
    AlignAtt(normalize="none", median_width=1, border_margin=0),
    AlignAtt(normalize="zscore", median_width=3, tau_src=0.3),
)


def changed(tokens, chance):
    """Return a variant of ``tokens``: cut or extended, with some tokens replaced."""
    tokens = [token if chance.random() < 0.9 else chance.choice((2, 3, 4)) for token in tokens]
    tokens = tokens[: chance.randint(0, len(tokens))]
    more = [chance.choice((2, 3, 4)) for _ in range(chance.randint(0, 2))]
    return (*tokens, *more)


def check_same(draft, plain):
    assert (draft.token_ids, draft.ended, draft.cut) == (plain.token_ids, plain.ended, plain.cut)
    assert (draft.rows is None) == (plain.rows is None)
    if draft.rows is not None:
        for name in ("source", "prompt", "suffix"):
            np.testing.assert_array_equal(getattr(draft.rows, name), getattr(plain.rows, name))


@settings(max_examples=500, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    row=st.sampled_from([*ROWS, None]),
    policy=st.sampled_from([*POLICIES, None]),
    frontier=st.integers(0, 4),
    most=st.integers(1, 9),
    window=st.integers(12, 30),
)
def test_an_expected_draft_is_the_decoded_one(seed, row, policy, frontier, most, window):
    chance = random.Random(seed)
    readout = Readout(HEADS, row) if row else None
    gate = policy.gate(frontier) if policy and readout else None
    plain = DraftEngine(SimulatedModel(seed, window=window), HEADS, frozenset({STOP}))
    model = SimulatedModel(seed, chance, window)
    engine = DraftEngine(model, HEADS, frozenset({STOP}))
    whole = plain.draft(DraftRequest(PROMPT, 9))
    expected = changed(whole.token_ids, chance)
    usual = plain.draft(DraftRequest(PROMPT, most, readout, gate))
    draft = engine.draft(DraftRequest(PROMPT, most, readout, gate, expected=expected))
    check_same(draft, usual)
    assert usual.rows is None or len(usual.rows.source) == len(usual.token_ids)
    assert len(model.asked) <= 2 + len(expected)
    assert len(model.ledger) == 0
    room = min(most, window - len(PROMPT.token_ids)) > len(usual.token_ids)
    if room and not usual.ended and readout is not None:
        wide = policy.gate(4) if gate else None
        rest = changed(whole.token_ids[len(usual.token_ids) :], chance)
        resumed = engine.draft(DraftRequest(PROMPT, most, readout, wide, draft, rest))
        check_same(resumed, plain.draft(DraftRequest(PROMPT, most, readout, wide, usual)))


def test_what_was_expected_behind_a_changed_word_is_verified_too():
    engine = DraftEngine(SimulatedModel(seed=13), HEADS, frozenset({STOP}))
    usual = engine.draft(DraftRequest(PROMPT, 9))
    tokens = usual.token_ids
    assert len(tokens) == 9
    assert tokens[4] not in tokens[5:]
    for expected, steps in (
        ((*tokens[:4], 9, *tokens[5:]), 2),  # another word
        ((*tokens[:4], 9, *tokens[4:]), 2),  # one more
        ((9,) * 9, usual.steps),
    ):
        draft = engine.draft(DraftRequest(PROMPT, 9, expected=expected))
        check_same(draft, usual)
        assert draft.steps == steps


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    row=st.sampled_from([*ROWS, None]),
    excluded=st.sets(st.integers(1, 4), min_size=1, max_size=3),
)
def test_excluded_tokens_are_not_drafted(seed, row, excluded):
    readout = Readout(HEADS, row) if row else None
    engine = DraftEngine(SimulatedModel(seed), HEADS, frozenset({STOP}))
    plain = engine.draft(DraftRequest(PROMPT, 9, readout))
    request = DraftRequest(
        PROMPT, 9, readout, expected=plain.token_ids, excluded=tuple(sorted(excluded))
    )
    draft = engine.draft(request)
    assert not excluded.intersection(draft.token_ids)
    begin = 0
    while plain.token_ids[begin : begin + 1] and plain.token_ids[begin] not in excluded:
        begin += 1
    assert draft.token_ids[:begin] == plain.token_ids[:begin]
    assert draft.rows is None or len(draft.rows.source) == len(draft.token_ids)


def test_an_engine_without_heads_verifies_nothing():
    plain = DraftEngine(SimulatedModel(1), (), frozenset({STOP}))
    usual = plain.draft(DraftRequest(PROMPT, 9))
    draft = plain.draft(DraftRequest(PROMPT, 9, expected=usual.token_ids))
    assert (draft.token_ids, draft.steps) == (usual.token_ids, usual.steps)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10_000), most=st.integers(1, 10))
def test_an_answer_is_the_same_whatever_was_expected_and_keeps_its_bound(seed, most):
    chance, audio = random.Random(seed), np.zeros(0)
    plain = AudioModel(SimulatedModel(seed)).generate(PROMPT.token_ids, audio, most)
    served = SimulatedModel(seed, chance)
    expected = changed([*plain.token_ids, 2, 3], chance)
    verified = AudioModel(served).generate(PROMPT.token_ids, audio, most, expected)
    assert (verified.token_ids, verified.ended) == (plain.token_ids, plain.ended)
    assert verified.requests == len(served.asked) <= 2
    assert all(length + room == len(PROMPT.token_ids) + most for length, room in served.asked)


# ---------------------------------------------------------------------- answers of several workers
def part(head: int | slice, rows: int = 2, value: float = 0.25):
    """Return a worker's answer with the rows ``[rows, 2 heads, 2 masses + 2 source tokens]``."""
    array = np.zeros((rows, 2, 4), np.float32)
    array[:, head] = value
    return list(array.shape), array.tobytes(), None, 0.5, 0, False


NO_HEADS = ([], b"", None, 0.0, 0, False)


def draft(*answers):
    """Return a draft of two tokens for two source tokens; the workers return ``answers``."""
    model = SimulatedModel(seed=1)
    model.ask_workers = lambda *_: list(answers)
    prompt, readout = Prompt((5, 6, 7, 8), 1, (0, 1)), Readout(HEADS, "predicting")
    return DraftEngine(model, HEADS, frozenset({STOP})).draft(DraftRequest(prompt, 2, readout))


@pytest.mark.parametrize(
    "answers",
    [(part(0), part(1)), (part(slice(None)), NO_HEADS), (NO_HEADS, part(slice(None)))],
)
def test_ranks_add_their_heads_if_they_have_any(answers):
    drafted = draft(*answers)
    assert drafted.replay_s == 0.5  # side by side
    assert (drafted.rows.source == 0.25).all()
    assert (drafted.rows.prompt == 0.25).all()


NO_ROWS = ([0, 2, 4], b"", None, 0.0, 0, False)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((part(0), NO_ROWS), r"shapes: \(2, 2, 4\) and \(0, 2, 4\)"),
        ((NO_ROWS,), "expected 2 attention rows, one per token, got 0"),
        ((NO_HEADS, NO_HEADS), "no worker captures the heads"),
        ((part(0), None), "has no result for the request"),
        ((part(0, value=float("nan")),), r"draft tokens \[0, 1\] were not captured"),
    ],
)
def test_missing_answers_are_errors(answers, message):
    with pytest.raises(EngineError, match=message):
        draft(*answers)
