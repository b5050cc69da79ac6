"""Memory of the translation engine after many requests whose rows are read."""

import psutil

from alignatt_agent.types.engines import DraftRequest
from tests.engine.batches import EMITTED, POLICY, PREDICTING
from tests.fixtures.engines import make_prompt

MIB = 1 << 20


def memory_after(requests: int, model, engine) -> float:
    """Resident memory of the translation engine in MiB after so many drafts."""
    # A span of 1,000 tokens: a leak of 80 times this size is visible.
    prompt = make_prompt(1, 1100, 20, 1000)
    for number in range(requests):
        gate = POLICY.gate(500) if number % 3 == 0 else None
        draft = engine.draft(DraftRequest(prompt, 12, (PREDICTING, EMITTED)[number % 2], gate))
        assert draft.rows is not None
    assert model.ask_workers("alignatt_held") == [0]
    (process,) = model._processes
    return psutil.Process(process.pid).memory_info().rss / MIB


def test_memory_does_not_grow_with_requests(engines, runtime):
    both = runtime.served["translation"], engines.translation
    early, late = memory_after(20, *both), memory_after(80, *both)
    # The rows of 80 requests are 20 to 30 MB.
    assert late - early < 10
