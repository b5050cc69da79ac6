"""A draft that ends at the gate has the same decision as the whole draft."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from alignatt_agent.engine import early_stop
from alignatt_agent.engine.row_requests import Ledger
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types.engines import Readout
from tests.engine.batches import check_begins
from tests.engine.test_row_requests import request, step
from tests.fixtures.engines import HEADS, make_prompt

POLICIES = {
    "paper": AlignAtt(),
    "raw": AlignAtt(border_margin=-1, normalize="none", median_width=1),
    "masses": AlignAtt(tau_argmax=0.01, tau_src=0.05, normalize="none", median_width=1),
}


@pytest.mark.parametrize("row", ["predicting", "emitted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_same_decision_in_fewer_steps_also_where_a_stopped_draft_is_resumed(engines, row, policy):
    readout, policy = Readout(HEADS, row), POLICIES[policy]
    stopped = resumed = 0
    for seed in range(4):
        prompt = make_prompt(100 + seed, 60 + 20 * seed, 10, 40)
        whole = engines.translation.draft(prompt, 16, readout)
        begun = None
        for frontier in (0, 10, 25, 40):
            gate, decision = policy.gate(frontier), policy.decide(whole, frontier)
            drafts = [engines.translation.draft(prompt, 16, readout, gate)]
            if begun and policy.decide(begun, frontier).accepted == len(begun.token_ids) < 16:
                drafts.append(engines.translation.draft(prompt, 16, readout, gate, begun))
                assert drafts[-1].replay_s > begun.replay_s > 0
                resumed += 1
            for draft in drafts:
                early = policy.decide(draft, frontier)
                assert (early.accepted, early.peaks) == (decision.accepted, decision.peaks)
                assert early.reason == decision.reason
                check_begins(whole, draft)
                if decision.accepted == len(whole.token_ids):
                    assert not draft.cut
                    assert (draft.token_ids, draft.ended) == (whole.token_ids, whole.ended)
                elif draft.cut:
                    assert not draft.ended
                    assert len(draft.token_ids) == decision.accepted + 1
            begun = drafts[-1] if drafts[-1].cut else None
            if drafts[0].cut:
                stopped += 1
                assert drafts[0].steps == decision.accepted + 1 + (row == "emitted")
    assert stopped > 5
    assert resumed > (2 if policy is POLICIES["masses"] else 4)  # masses close it at any frontier


# ---------------------------------------------------------------------- the processors alone
def live_request(rejected: bool):
    settings = {**AlignAtt().gate(2).settings, "frontier": 2, "earlier": ([0, 1, 1], b"")}
    wanted = {"prompt": 5, "first": 4, "gate": settings}
    new = request("k", blocks=[[0]], **wanted)
    new.sampling_params.stop_token_ids = [3, 7]
    ledger = Ledger()
    (row,) = ledger.schedule(step([new], counts={new.req_id: 5}))
    row.request.rejected = rejected
    return ledger, row.request, new.sampling_params


PLAIN = SimpleNamespace(extra_args=None, stop_token_ids=[3, 7])


def runner(version):
    """Return a function that samples the most likely token of a request after the processor."""
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
