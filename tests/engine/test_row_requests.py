"""The rows that a step must compute for each request, and how long they are stored."""

from types import SimpleNamespace

from alignatt_agent.engine import row_requests
from alignatt_agent.engine.row_requests import EXTRA, Ledger


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
    args = {EXTRA: asked | wanted} if extra else None
    return SimpleNamespace(
        req_id=f"{name}-random",
        num_computed_tokens=computed,
        block_ids=[list(b) for b in blocks],
        sampling_params=SimpleNamespace(extra_args=args),
    )


def positions(work):
    return [(item.request.key, item.position) for item in work]


def test_a_request_owes_its_rows_from_the_first_wanted_position_to_the_last():
    ledger, a = Ledger(), "a-random"
    assert positions(ledger.schedule(step([request("a")], counts={a: 6}))) == []
    # The last one is a surplus step of asynchronous scheduling.
    for begin, count, owed in ((6, 4, 9), (10, 1, 10), (11, 1, 11), (12, 1, None)):
        work = ledger.schedule(step(cached=[(a, None, begin)], counts={a: count}))
        assert positions(work) == ([("a", owed)] if owed else [])


def test_requests_that_want_nothing_are_left_alone():
    ledger, pooling = Ledger(), request("p")
    pooling.sampling_params = None
    counts = {"b-random": 12, "p-random": 3}
    assert ledger.schedule(step([request("b", extra=False), pooling], counts=counts)) == []
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


def test_rows_that_are_not_fetched_are_dropped_after_a_minute(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(row_requests.time, "monotonic", lambda: now[0])
    ledger = Ledger()
    for name in "abc":
        ledger.schedule(step([request(name)], counts={f"{name}-random": 10}))
        ledger.schedule(step(finished=[f"{name}-random"]))
        now[0] += row_requests.MAX_WAIT_S / 2 + 1
    assert [name for name in "abc" if ledger.take(name) is not None] == ["b", "c"]
