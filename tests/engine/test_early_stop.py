"""A draft that the engine stops at the gate decides like the whole draft."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from alignatt_agent.config.sections import PromptWording
from alignatt_agent.engine import early_stop
from alignatt_agent.engine.row_requests import Ledger
from alignatt_agent.policy import AlignAtt
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import EngineError, SourceView
from alignatt_agent.types.engines import Readout
from tests.engine.batches import check_begins
from tests.engine.test_row_requests import request, step
from tests.fakes.models import make_words
from tests.fixtures.engines import HEADS, make_prompt

POLICIES = {
    "paper": AlignAtt(),
    "raw": AlignAtt(border_margin=-1, normalize="none", median_width=1),
    "masses": AlignAtt(tau_argmax=0.01, tau_src=0.05, normalize="none", median_width=1),
}


@pytest.mark.parametrize("row", ["predicting", "emitted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_same_decision_in_fewer_steps(engines, row, policy):
    readout, gate = Readout(HEADS, row), POLICIES[policy]
    stopped = 0
    for seed in range(4):
        prompt = make_prompt(100 + seed, 60 + 20 * seed, 10, 40)
        whole = engines.translation.draft(prompt, 16, readout)
        for frontier in (0, 10, 25, 40):
            draft = engines.translation.draft(prompt, 16, readout, gate.gate(frontier))
            decision = gate.decide(whole, frontier)
            early = gate.decide(draft, frontier)
            assert (early.accepted, early.peaks) == (decision.accepted, decision.peaks)
            assert early.reason == decision.reason
            check_begins(whole, draft)
            if decision.accepted == len(whole.token_ids):
                assert not draft.cut
                assert (draft.token_ids, draft.ended) == (whole.token_ids, whole.ended)
                continue
            if draft.cut:
                stopped += 1
                assert not draft.ended
                assert len(draft.token_ids) == decision.accepted + 1
                assert draft.steps == decision.accepted + 1 + (row == "emitted")
    assert stopped > 5


def test_a_talk_with_history_is_the_same_however_its_drafts_are_made(engines):
    """With and without early stop and verification; a talk without history: tests/e2e."""
    text = "The cat saw it. It sleeps now, in the old house. Nobody knows. Good bye!"
    talk = text.split()
    plain = PromptWording(chat=False, system=None, before="Say: ", after="\nGerman:")
    builder = PromptBuilder(engines.tokenizer, "English", "German", plain)
    found, steps, prompts = [], [], []
    for early, verify in ((False, False), (True, True)):
        history = History(builder, 1, 300)
        translator = Translator(
            *(engines.translation, builder, engines.tokenizer, Readout(HEADS, "predicting")),
            *(POLICIES["raw"], True, 8, early, verify),
            history=history,
        )
        begin, emitted = 0, []
        for end in range(1, len(talk) + 1):
            words = make_words(" ".join(talk[begin:end]))
            emitted.append(translator.update(SourceView(words, max(0, len(words) - 1))))
            if talk[end - 1][-1] in ".!":
                emitted.append(translator.complete(words))
                begin = end
        found.append(emitted)
        steps.append(translator.steps)
        prompts.append(history.prompt(["A"], ()))
    assert all(emitted == found[0] for emitted in found)
    assert any(emission.units for emission in found[0])
    assert all(prompt == prompts[0] for prompt in prompts)
    assert prompts[0] != builder.build(["A"])
    assert steps[1] < steps[0]


@pytest.mark.parametrize("row", ["predicting", "emitted"])
def test_a_stopped_draft_is_resumed_where_it_stopped(engines, row):
    readout, policy = Readout(HEADS, row), POLICIES["paper"]
    resumed = 0
    for seed in range(4):
        prompt = make_prompt(200 + seed, 90, 10, 40)
        whole = engines.translation.draft(prompt, 16, readout)
        draft = engines.translation.draft(prompt, 16, readout, policy.gate(0))
        while draft.cut and len(draft.token_ids) < 16:
            resumed += 1
            begun = draft
            peaks = policy.decide(begun, 40).peaks
            frontier = max(peaks) if policy.decide(begun, max(peaks)).accepted == len(peaks) else 40
            draft = engines.translation.draft(prompt, 16, readout, policy.gate(frontier), begun)
            assert draft.token_ids[: len(begun.token_ids)] == begun.token_ids
            assert len(draft.token_ids) > len(begun.token_ids) or draft.ended
            assert draft.replay_s > begun.replay_s > 0
            check_begins(whole, draft)
            assert policy.decide(draft, frontier).peaks == policy.decide(whole, frontier).peaks
    assert resumed > 4


def test_a_gate_needs_rows_and_a_resumed_draft_room(engines):
    prompt = make_prompt(1, 40, 5, 10)
    with pytest.raises(EngineError, match="a gate needs a readout"):
        engines.translation.draft(prompt, 4, None, AlignAtt().gate(3))
    begun = engines.translation.draft(prompt, 4, Readout(HEADS, "emitted"))
    with pytest.raises(EngineError, match="4 tokens was asked for, after 4"):
        engines.translation.draft(prompt, 4, Readout(HEADS, "emitted"), None, begun)
    other = Readout(HEADS[:2], "emitted")
    with pytest.raises(EngineError, match="same prompt and readout"):
        engines.translation.draft(prompt, 8, other, None, begun)


# ---------------------------------------------------------------------- the processors alone
def live_request(rejected: bool, gate: bool = True):
    settings = {**AlignAtt().gate(2).settings, "frontier": 2, "earlier": ([0, 1, 1], b"")}
    wanted = {"prompt": 5, "first": 4, "gate": settings if gate else None}
    new = request("k", blocks=[[0]], **wanted)
    new.sampling_params.stop_token_ids = [3, 7]
    ledger = Ledger()
    (row,) = ledger.schedule(step([new], counts={new.req_id: 5}))
    row.request.rejected = rejected
    return ledger, row.request, new.sampling_params


PLAIN = SimpleNamespace(extra_args=None, stop_token_ids=[3, 7])


def runner(version):
    """Return what samples the likeliest token of a request after a processor's change."""
    first, second = early_stop.EarlyStopV1(None, None, False), early_stop.EarlyStopV2(None, None)
    processor = first if version == 1 else second
    name = f"{early_stop.__name__}:{type(processor).__name__}"
    assert early_stop.processor_name(version == 2) == name

    def sample(params, token):
        logits = torch.nn.functional.one_hot(torch.tensor([5, token]), 8).float()
        if version == 1:
            process = processor.new_req_logits_processor(params)
            return int((process([], logits[1]) if process else logits[1]).argmax())
        processor.add_request(2, PLAIN)
        assert processor.add_request(4, params) == (params is not PLAIN)  # the slot is used again
        batch = SimpleNamespace(idx_mapping_np=np.array([2, 4]))
        plain, token = processor.apply(logits, batch).argmax(-1).tolist()
        assert plain == 5
        return token

    return sample


@pytest.mark.parametrize("version", [1, 2])
def test_the_end_is_forced_once_a_token_was_rejected(version):
    sample = runner(version)
    ledger, live, params = live_request(rejected=True)
    assert (sample(params, 1), live.next_token) == (3, 1)
    live.next_token = None
    assert (sample(params, 7), live.next_token) == (7, None)
    assert sample(PLAIN, 1) == 1
    ledger.take("k")
    del live
    assert sample(params, 1) == 1  # the rows were fetched or dropped
    _ledger, live, params = live_request(rejected=False)
    assert (sample(params, 1), live.next_token) == (1, None)


def test_nothing_is_processed_without_a_gate():
    _ledger, _live, params = live_request(rejected=True, gate=False)
    processor = early_stop.EarlyStopV1(None, None, False)
    assert processor.new_req_logits_processor(params) is None
    assert processor.new_req_logits_processor(PLAIN) is None
