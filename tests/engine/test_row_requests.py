"""Which rows a step owes to which request, and that nothing stays behind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from alignatt_agent.engine import row_requests
from alignatt_agent.engine.row_requests import EXTRA, Ledger, capture_request


def step(new=(), cached=(), counts=None, finished=(), resumed=()):
    return SimpleNamespace(
        finished_req_ids=set(finished),
        scheduled_new_reqs=list(new),
        num_scheduled_tokens=counts or {},
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[c[0] for c in cached],
            new_block_ids=[c[1] for c in cached],
            num_computed_tokens=[c[2] for c in cached],
            resumed_req_ids=set(resumed),
        ),
    )


def request(name, computed=0, blocks=((1, 2), (3,)), extra=True, **wanted):
    asked = {"key": name, "start": 1, "end": 3, "prompt": 10, "first": 9, "count": 3, "heads": [0]}
    args = {EXTRA: capture_request(**{**asked, **wanted})} if extra else None
    return SimpleNamespace(
        req_id=f"{name}-random",
        num_computed_tokens=computed,
        block_ids=[list(b) for b in blocks],
        sampling_params=SimpleNamespace(extra_args=args),
    )


def positions(work):
    return [(item.request.key, item.position) for item in work]


def test_a_request_owes_its_rows_from_the_first_wanted_position_to_the_last():
    ledger = Ledger()
    a = "a-random"
    assert positions(ledger.schedule(step([request("a")], counts={a: 6}))) == []
    assert positions(ledger.schedule(step(cached=[(a, None, 6)], counts={a: 4}))) == [("a", 9)]
    assert positions(ledger.schedule(step(cached=[(a, None, 10)], counts={a: 1}))) == [("a", 10)]
    assert positions(ledger.schedule(step(cached=[(a, None, 11)], counts={a: 1}))) == [("a", 11)]
    # A surplus step of asynchronous scheduling owes nothing.
    assert positions(ledger.schedule(step(cached=[(a, None, 12)], counts={a: 1}))) == []


def test_requests_that_want_nothing_are_left_alone():
    ledger = Ledger()
    pooling = SimpleNamespace(
        req_id="p", num_computed_tokens=0, block_ids=[[1]], sampling_params=None
    )
    work = ledger.schedule(
        step([request("b", extra=False), pooling], counts={"b-random": 12, "p": 3})
    )
    assert work == []
    assert len(ledger) == 0


def test_blocks_grow_and_are_replaced_when_a_request_resumes():
    ledger = Ledger()
    a = "a-random"
    (item,) = ledger.schedule(step([request("a")], counts={a: 10}))
    ledger.schedule(step(cached=[(a, ([5], []), 10)], counts={a: 1}))
    assert item.request.blocks == [[1, 2, 5], [3]]
    again = ledger.schedule(step(cached=[(a, ([7], [8]), 0)], counts={a: 11}, resumed=[a]))
    assert item.request.blocks == [[7], [8]]
    assert positions(again) == [("a", 9), ("a", 10)]
    # Model runner V2 announces it as new.
    ledger.schedule(step([request("a", blocks=((9,), (9,)))], counts={a: 11}))
    assert item.request.blocks == [[9], [9]]
    assert len(ledger) == 1


def test_pages_are_cut_out_of_blocks():
    ledger = Ledger()
    (item,) = ledger.schedule(step([request("a")], counts={"a-random": 10}))
    assert item.request.pages(0, 1, 4) == [1, 2, 0, 0]
    assert item.request.pages(0, 2, 3) == [2, 3, 4]
    assert item.request.pages(1, 4, 2) == [12, 13]


def test_rows_are_handed_over_once():
    ledger = Ledger()
    ledger.schedule(step([request("a")], counts={"a-random": 10}))
    assert ledger.take("a") is not None
    assert ledger.take("a") is None
    assert ledger.schedule(step(cached=[("a-random", None, 10)], counts={"a-random": 1})) == []
    assert ledger.schedule(step(finished=["a-random"])) == []


def test_unfetched_requests_are_bounded_by_number(monkeypatch):
    monkeypatch.setattr(row_requests, "MAX_UNFETCHED", 3)
    ledger = Ledger()
    for i in range(10):
        ledger.schedule(step([request(f"r{i}")], counts={f"r{i}-random": 10}))
        ledger.schedule(step(finished=[f"r{i}-random"]))
    assert len(ledger) == 3
    assert ledger.take("r9") is not None
    assert ledger.take("r6") is None


def test_unfetched_requests_are_bounded_by_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(row_requests.time, "monotonic", lambda: now[0])
    ledger = Ledger()
    for name in ("old", "new"):
        ledger.schedule(step([request(name)], counts={f"{name}-random": 10}))
        ledger.schedule(step(finished=[f"{name}-random"]))
        now[0] += row_requests.MAX_WAIT_S + 1
    assert ledger.take("old") is None
    assert ledger.take("new") is not None


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_request_may_finish_without_ever_being_scheduled(count):
    ledger = Ledger()
    assert ledger.schedule(step(finished=[f"x{i}" for i in range(count)])) == []
