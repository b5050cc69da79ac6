"""A mixed batch of draft requests, which tests run on engines in all modes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.policy.alignatt import AlignAtt
from alignatt_agent.types import AttentionRows, Draft, Prompt
from alignatt_agent.types.engines import DraftRequest, Gate, Readout
from lab.reference import Reference
from tests.fixtures.engines import HEADS, make_prompt

# With AMX, the float32 rows of this model differ from float64 by up to 9.4e-5 in vLLM and 7.2e-5 in
# Transformers, so that two correct implementations may differ by 1.7e-4.
TOLERANCE = 3e-4

POLICY = AlignAtt(normalize="zscore", median_width=3)

PREDICTING = Readout(HEADS, "predicting")
EMITTED = Readout(HEADS, "emitted")
READOUTS = (
    PREDICTING,
    EMITTED,
    Readout(HEADS[2:5][::-1], "predicting"),
    Readout(HEADS[5:], "emitted"),
)
"""Several sets of heads, as for several target languages; the engine captures all of them."""


@dataclass(frozen=True)
class Case:
    """A request, and the tokens that are expected."""

    prompt: Prompt
    tokens: int
    readout: Readout
    gate: Gate | None = None
    expected: tuple[int, ...] = ()

    def run(self, engine: DraftEngine) -> Draft:
        request = DraftRequest(
            prompt=self.prompt,
            max_tokens=self.tokens,
            readout=self.readout,
            gate=self.gate,
            expected=self.expected,
        )
        return engine.draft(request)


def cases(count: int) -> list[Case]:
    """Short and long prompts (the window is 64, the budget of a step 128), some with one prefix."""
    found = []
    for i in range(count):
        length = 30 + 23 * (i % 9)
        shared = 64 if length > 90 and i % 2 else 0
        prompt = make_prompt(500 + i, length, 5, 10 + 6 * (i % 9), shared)
        gate = POLICY.gate((5, 40)[i % 2]) if i % 3 else None
        found.append(Case(prompt, 8 + 5 * (i % 4), READOUTS[i % 4], gate))
    return found


def crowd() -> list[Case]:
    """Requests that start together and grow by more blocks than a small cache has."""
    found = []
    for i in range(6):
        gate = POLICY.gate(60) if i % 3 else None
        found.append(Case(make_prompt(600 + i, 55 + i, 5, 30), 44, READOUTS[i % 4], gate))
    return found


def together(engine: DraftEngine, batch: list[Case]) -> list[Draft]:
    """Run all requests concurrently, each in its thread."""
    with ThreadPoolExecutor(len(batch)) as pool:
        return list(pool.map(lambda case: case.run(engine), batch))


def decision(case: Case, draft: Draft) -> tuple[int, str]:
    """Return the policy's decision about a draft."""
    frontier = case.gate.frontier if case.gate else 5
    decided = POLICY.decide(draft, frontier)
    return decided.accepted, decided.reason.value


def check_close(rows: AttentionRows | None, expected: AttentionRows | None) -> None:
    """Compare rows within rounding."""
    assert rows is not None
    assert expected is not None
    for name in AttentionRows.__dataclass_fields__:
        np.testing.assert_allclose(getattr(rows, name), getattr(expected, name), atol=TOLERANCE)


def check_rows(reference: Reference, case: Case, draft: Draft) -> None:
    """Compare the rows of a draft with those of Transformers."""
    rows = draft.rows
    assert rows is not None
    assert draft.token_ids
    count, heads = len(draft.token_ids), len(case.readout.heads)
    assert rows.source.shape == (count, heads, len(case.prompt.token_word))
    expected = reference.rows(case.prompt, draft.token_ids, case.readout)
    check_close(rows, expected)
    visible = expected.source.sum(-1) > 0  # a span that left the window has no argmax
    found, peaks = rows.source.argmax(-1), expected.source.argmax(-1)
    np.testing.assert_array_equal(found[visible], peaks[visible])


def check_begins(whole: Draft, part: Draft) -> None:
    """Compare a draft with one that may have been cut before."""
    assert whole.rows is not None
    count = len(part.token_ids)
    assert whole.token_ids[:count] == part.token_ids
    check_close(whole.rows[:count], part.rows)


def check_same(case: Case, draft: Draft, other: Draft) -> None:
    """Compare two drafts of the same request: ids, decision and rows are equal."""
    check_begins(draft, other)
    assert (len(draft.token_ids), draft.ended, draft.cut) == (
        len(other.token_ids),
        other.ended,
        other.cut,
    )
    assert decision(case, draft) == decision(case, other)
