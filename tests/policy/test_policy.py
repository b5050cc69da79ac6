"""Rows -> decision, by hand for each stop reason, and the frontier as a property."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.policy import (
    POLICIES,
    REASONS,
    AlignAtt,
    AlignAttOrAgreement,
    Confidence,
    EmitAll,
    HoldN,
    LocalAgreement,
    WaitK,
)
from alignatt_agent.types import NO_CONTEXT, Draft, DraftContext, StopReason
from tests.fakes.models import make_rows

# Two heads that agree; source tokens 0-3. Peaks 0, 1, 2, 3.
ROWS = make_rows(
    [
        [[0.5, 0.1, 0.0, 0.0]] * 2,
        [[0.1, 0.4, 0.1, 0.0]] * 2,
        [[0.0, 0.1, 0.3, 0.2]] * 2,
        [[0.0, 0.0, 0.1, 0.6]] * 2,
    ]
)
DRAFT = Draft((11, 12, 13, 14), ended=True, rows=ROWS)


def gate(**options):
    return AlignAtt(**{"normalize": "none", "median_width": 1, **options})


@pytest.mark.parametrize(
    ("options", "frontier", "accepted", "reason"),
    [
        ({"border_margin": 0}, 4, 4, StopReason.DRAFT_END),
        ({"border_margin": 4}, 0, 4, StopReason.DRAFT_END),
        ({"border_margin": 0}, 3, 3, StopReason.SOURCE_FRONTIER),
        ({"border_margin": 0}, 2, 2, StopReason.SOURCE_FRONTIER),
        ({"border_margin": 1}, 2, 3, StopReason.SOURCE_FRONTIER),
        ({"border_margin": 1}, 0, 1, StopReason.SOURCE_FRONTIER),
        ({"border_margin": 0}, 0, 0, StopReason.SOURCE_FRONTIER),
        ({"tau_argmax": 0.35}, 4, 2, StopReason.ARGMAX_MASS_WEAK),
        ({"tau_argmax": 0.45}, 4, 1, StopReason.ARGMAX_MASS_WEAK),
        ({"tau_src": 0.65}, 4, 0, StopReason.PROVENANCE_WEAK),
        ({"tau_src": 0.2, "border_margin": 2}, 2, 2, StopReason.PROVENANCE_WEAK),
        # The first failing test names the reason.
        ({"tau_argmax": 0.9, "tau_src": 0.9, "border_margin": 0}, 0, 0, StopReason.SOURCE_FRONTIER),
        ({"tau_argmax": 0.9, "tau_src": 0.9}, 4, 0, StopReason.ARGMAX_MASS_WEAK),
    ],
)
def test_where_and_why_the_gate_stops(options, frontier, accepted, reason):
    decision = gate(**options).decide(DRAFT, frontier)
    assert (decision.accepted, decision.reason) == (accepted, reason)
    assert decision.peaks == tuple(range(min(accepted + 1, 4)))  # the rejected one included
    masses = [ROWS.source[k, :, :frontier].sum(-1).mean() for k in decision.peaks]
    assert decision.accessible_mass == pytest.approx(masses)


def test_filters_move_peaks_and_the_engine_gets_the_settings():
    assert gate(median_width=3).decide(DRAFT, 4).peaks != (0, 1, 2, 3)
    assert gate(normalize="zscore").decide(DRAFT, 4).peaks != (0, 1, 2, 3)
    apart = Draft((1,), False, make_rows([[[0, 0, 0.9, 0, 0], [0, 0, 0, 0.9, 0]]]))
    assert gate(median_width=3, median="per_head").decide(apart, 5).peaks == (0,)
    told = gate(border_margin=-1).gate(3)
    assert (told.frontier, told.settings["border_margin"]) == (3, -1)
    edges = [policy.edge(3) for policy in (gate(border_margin=-4), gate(border_margin=1), HoldN())]
    assert edges == [0, 4, 3]


def test_argmax_mass_is_read_from_the_raw_mean_at_the_filtered_peak():
    # The median moves the peak from the lone 0.5 to token 3, whose raw mass is 1/8.
    row = [0.0, 0.0, 0.5, 0.125, 0.25, 0.125, 0.0]
    draft = Draft((1,), False, make_rows([[row]]))
    policy = gate(median_width=3, tau_argmax=0.3)
    decision = policy.decide(draft, 7)
    assert decision.peaks == (3,)
    assert (decision.accepted, decision.reason) == (0, StopReason.ARGMAX_MASS_WEAK)
    assert gate(median_width=3, tau_argmax=0.125).decide(draft, 7).accepted == 1


def test_what_is_missing_is_named():
    for rows, got in ((None, "0"), (ROWS, "4")):
        with pytest.raises(ValueError, match=f"expected 2 attention rows, .* got {got}:"):
            gate().decide(Draft((1, 2), True, rows), 3)
    with pytest.raises(ValueError, match="one probability per drafted token"):
        Confidence().decide(Draft((7, 8), False), 0)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    tokens=st.integers(1, 16),
    source=st.integers(1, 20),
    margin=st.integers(0, 3),
    normalize=st.sampled_from(["zscore", "none"]),
    width=st.sampled_from([1, 3, 7]),
    data=st.data(),
)
def test_no_accepted_token_past_the_frontier(seed, tokens, source, margin, normalize, width, data):
    frontier = data.draw(st.integers(0, source))
    rng = np.random.default_rng(seed)
    rows = make_rows(rng.dirichlet(np.full(source + 1, 0.3), size=(tokens, 3))[:, :, :-1])
    policy = AlignAtt(border_margin=margin, normalize=normalize, median_width=width)
    decision = policy.decide(Draft(tuple(range(tokens)), False, rows), frontier)
    assert all(peak < frontier + margin for peak in decision.peaks[: decision.accepted])
    if decision.accepted < tokens:
        assert decision.reason is StopReason.SOURCE_FRONTIER
        assert decision.peaks[decision.accepted] >= frontier + margin
    # A shorter draft decides its tokens alike, and a farther frontier takes nothing back.
    cut = data.draw(st.integers(1, tokens))
    short = make_rows(rows.source[:cut])
    again = policy.decide(Draft(tuple(range(cut)), False, short), frontier)
    assert again.accepted == min(cut, decision.accepted)
    farther = policy.decide(Draft(tuple(range(tokens)), False, rows), frontier + 1)
    assert farther.accepted >= decision.accepted


def held(heard, written=0):
    return DraftContext(heard=heard, written=lambda: written)


def earlier(*drafts):
    return DraftContext(earlier=drafts)


@pytest.mark.parametrize(
    ("policy", "context", "accepted"),
    [
        (EmitAll(), NO_CONTEXT, 7),
        *((HoldN(n=n), NO_CONTEXT, accepted) for n, accepted in enumerate((7, 5, 2, 0, 0))),
        (LocalAgreement(drafts=2), NO_CONTEXT, 0),
        (LocalAgreement(drafts=2), earlier((0, 1, 9)), 2),
        (LocalAgreement(drafts=2), earlier((0, 1, 9), (8,)), 2),
        (LocalAgreement(drafts=2), earlier(()), 0),  # the earlier draft went another way before
        (LocalAgreement(drafts=2), earlier(tuple(range(9))), 7),
        (LocalAgreement(drafts=3), earlier((0, 1, 9)), 0),
        (LocalAgreement(drafts=3), earlier((0, 1, 9), (0, 8)), 1),
        (WaitK(k=3, rate=1.0), held(2), 0),
        (WaitK(k=3, rate=1.0), held(3), 2),  # the first unit is due, which is two tokens long
        (WaitK(k=3, rate=1.0), held(4), 5),
        (WaitK(k=3, rate=1.0), held(4, written=1), 2),
        (WaitK(k=3, rate=1.0), held(4, written=7), 0),
        (WaitK(k=3, rate=1.0), held(99), 7),
        (WaitK(k=2, rate=1.5), held(3), 7),  # 1.5 * 2 = 3 units
        (WaitK(k=2, rate=0.5), held(2), 0),
        (Confidence(tau_prob=0.0), NO_CONTEXT, 7),
        (Confidence(tau_prob=0.5), NO_CONTEXT, 7),
        (Confidence(tau_prob=0.6), NO_CONTEXT, 1),
        (Confidence(tau_prob=0.95), NO_CONTEXT, 0),
    ],
)
def test_what_policies_without_rows_accept(policy, context, accepted):
    draft = Draft(tuple(range(7)), False, probabilities=(0.9, 0.5, *[0.99] * 5))
    decision = policy.decide(draft, 1, replace(context, unit_ends=lambda: (2, 5, 7)))
    stopped = {"local_agreement": StopReason.DISAGREEMENT, "confidence": StopReason.UNSURE}
    reason = stopped.get(policy.name, StopReason.HELD_BACK)
    assert decision.accepted == accepted
    assert decision.reason is (StopReason.DRAFT_END if accepted == 7 else reason)
    assert decision.peaks == ()


def test_an_empty_draft_and_peaks_of_emit_all():
    for policy in (gate(), EmitAll()):
        decision = policy.decide(Draft((), True, None), 3)
        assert (decision.accepted, decision.reason) == (0, StopReason.DRAFT_END)
        assert decision.peaks == decision.accessible_mass == ()
    assert EmitAll().decide(DRAFT, 0).peaks == (0, 1, 2, 3)


def test_policies_are_listed_by_name_and_only_rows_tell_an_engine_where_to_stop():
    for name, kind in POLICIES.items():
        assert kind().name == name
        assert (kind().gate(3) is None) == (kind.reads != "rows")
        assert kind.reasons.items() <= REASONS.items()  # one text for a reason


def test_a_draft_by_itself_needs_no_agreement():
    patient = gate(drafts=2, border_margin=0)
    assert patient.decide(DRAFT, 3).accepted == 0
    assert patient.alone().decide(DRAFT, 3).accepted == 3
    assert LocalAgreement().alone() == LocalAgreement()


@pytest.mark.parametrize(
    ("drafts", "earlier", "accepted", "reason"),
    [
        (1, (), 3, StopReason.SOURCE_FRONTIER),
        (2, (), 0, StopReason.DISAGREEMENT),
        (2, ((11, 12, 99),), 2, StopReason.DISAGREEMENT),
        (2, ((11, 12, 13, 14),), 3, StopReason.SOURCE_FRONTIER),
        (3, ((11, 12, 13, 14), (11,)), 1, StopReason.DISAGREEMENT),
    ],
)
def test_the_gate_may_ask_successive_drafts_to_agree(drafts, earlier, accepted, reason):
    decision = gate(border_margin=0, drafts=drafts).decide(DRAFT, 3, DraftContext(tuple, earlier))
    assert (decision.accepted, decision.reason) == (accepted, reason)
    assert decision.peaks == (0, 1, 2, 3)  # the gate looked as far as ever
    assert decision.closed
    assert not gate(border_margin=0).decide(DRAFT, 4).closed


@pytest.mark.parametrize(
    ("options", "frontier", "earlier", "accepted", "reason"),
    [
        ({}, 4, (), 2, StopReason.DISAGREEMENT),  # the gate with margin -2
        ({}, 4, ((11, 12, 13),), 3, StopReason.DISAGREEMENT),
        ({}, 4, ((11, 12, 13, 14),), 4, StopReason.DRAFT_END),
        ({}, 4, ((11,),), 2, StopReason.DISAGREEMENT),  # the longer prefix counts
        ({}, 4, ((99,),), 2, StopReason.DISAGREEMENT),
        ({"drafts": 3}, 4, ((11, 12, 13),), 2, StopReason.DISAGREEMENT),
        ({"drafts": 3}, 4, ((11, 12, 13), (11, 12, 13, 14)), 3, StopReason.DISAGREEMENT),
        # Tokens two or more positions after the frontier are rejected even if the drafts agree.
        ({}, 1, ((11, 12, 13, 14),), 3, StopReason.SOURCE_FRONTIER),
        ({}, 0, ((11, 12, 13, 14),), 2, StopReason.SOURCE_FRONTIER),
    ],
)
def test_the_gate_or_agreement_suffices(options, frontier, earlier, accepted, reason):
    policy = either(**options)
    decision = policy.decide(DRAFT, frontier, DraftContext(earlier=earlier))
    assert (decision.accepted, decision.reason) == (accepted, reason)
    assert decision.closed == (frontier + policy.agreed_margin <= 3)
    assert len(decision.peaks) == min(4, frontier + policy.agreed_margin + 1)


def either(**options):
    settings = {"drafts": 2, "border_margin": -2, "normalize": "none", "median_width": 1}
    return AlignAttOrAgreement(**{**settings, **options})


def test_the_strict_gate_of_gate_or_agreement():
    with pytest.raises(ValueError, match="less than or equal to 0"):
        either(border_margin=1)
    assert either().alone() == gate(border_margin=-2)
    # A configuration that changes only the name must not return to the filters of the paper.
    plain = AlignAttOrAgreement()
    assert (plain.normalize, plain.median_width) == ("none", 1)
    assert either().edge(3) == 5


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    tokens=st.integers(1, 12),
    source=st.integers(1, 12),
    data=st.data(),
)
def test_either_accepts_a_prefix_at_least_as_long_as_both(seed, tokens, source, data):
    rng, frontier = np.random.default_rng(seed), data.draw(st.integers(0, source))
    rows = make_rows(rng.dirichlet(np.full(source + 1, 0.3), size=(tokens, 3))[:, :, :-1])
    same = data.draw(st.integers(0, tokens))
    known = (*range(same), *[99] * (tokens - same))
    context = DraftContext(earlier=(known,))
    draft = Draft(tuple(range(tokens)), False, rows)
    margin = data.draw(st.integers(-4, 0))
    policy = either(border_margin=margin)
    decision = policy.decide(draft, frontier, context)
    possible = gate(border_margin=policy.agreed_margin).decide(draft, frontier).accepted
    assert 0 <= min(possible, same) <= decision.accepted <= possible
    strict = gate(border_margin=margin).decide(draft, frontier).accepted
    assert decision.accepted == max(strict, min(possible, same))
    # An engine may end the draft at the first token that is rejected in any case.
    cut = len(decision.peaks)
    short = Draft(draft.token_ids[:cut], False, rows[slice(cut)])
    again = policy.decide(short, frontier, context)
    assert (again.accepted, again.peaks) == (decision.accepted, decision.peaks)
    scan = policy.scan(frontier)
    reasons = [scan(row) for row in rows.source[:cut]]
    assert all(reason is None for reason in reasons[: cut - decision.closed])
    assert (reasons[-1] is not None) == decision.closed
    patient = either(border_margin=margin, drafts=3)
    assert patient.decide(draft, frontier, context).accepted <= decision.accepted
