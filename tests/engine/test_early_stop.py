"""The processors of logits end a request once its gate rejected a token."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from alignatt_agent.engine import early_stop
from alignatt_agent.engine.row_requests import Ledger
from alignatt_agent.policy import AlignAtt
from tests.engine.test_row_requests import request, step


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
