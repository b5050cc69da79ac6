"""The checks that need engines, on fakes with a fault each; a real run: lab/tests/test_prove.py."""

import numpy as np
import pytest

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.resources import find_path
from alignatt_agent.doctor import engine_checks, parity_check
from alignatt_agent.doctor.parity_check import Case
from alignatt_agent.machine.nvidia import GIB
from alignatt_agent.policy import AlignAtt, EmitAll
from alignatt_agent.types import AttentionRows, Draft, EngineError, Prompt
from alignatt_agent.types.engines import Readout
from lab.stand_ins import random_models
from tests.fakes.models import make_rows
from tests.fixtures.engines import HEADS, make_prompt

FIRST = (1, 0, 0, 0)
"""A row that looks at the first of four tokens."""


class Drafts:
    """An engine with one fault or none."""

    def __init__(self, fault=""):
        self.fault = fault

    def draft(self, request):
        max_tokens = request.max_tokens
        ids = tuple(range(max_tokens))
        if request.expected:
            ids = (*ids[:-1], 77) if self.fault == "verify" else ids
            return Draft(ids, False, make_rows([[FIRST]] * max_tokens), steps=1)
        if request.readout is None:
            return Draft((9, *ids[1:]) if self.fault == "ids" else ids, False, steps=max_tokens)
        rows = make_rows([[FIRST]] * max_tokens)
        rows.source[2:] = np.roll(rows.source[2:], 3, axis=2)  # rejected from the third row on
        if request.gate is None or self.fault == "deaf":
            return Draft(ids, False, rows, steps=max_tokens)
        if self.fault == "other":
            ids = (ids[0], 77, *ids[2:])
        return Draft(ids[:3], False, rows[:3], cut=True, steps=3)


CASES = [Case(Prompt(tuple(range(12)), 2, (0, 1, 2, 3)), Readout(((0, 0),), "predicting"))] * 2
GATE = AlignAtt(normalize="none", median_width=1, border_margin=0)


@pytest.mark.parametrize(
    ("check", "fault", "rest", "status", "found"),
    [
        ("identity", "", (8,), "ok", "2 of 2 drafts"),
        ("identity", "ids", (8,), "FAIL", "0 of 2 drafts"),
        ("verification", "", (8, "float32"), "ok", "2 of 2 equal the decoded drafts, 2/16 steps"),
        ("verification", "verify", (8, "float32"), "FAIL", "0 of 2 equal the decoded drafts, 2/16"),
        ("verification", "verify", (8, "bfloat16"), "warn", "0 of 2 equal the decoded drafts, 2"),
        ("early_stop", "", (GATE, 8), "ok", "6 of 6 decisions equal those of full drafts, 18/48"),
        ("early_stop", "deaf", (GATE, 8), "ok", "6 of 6"),  # to ignore the gate is allowed
        ("early_stop", "other", (GATE, 8), "FAIL", "of 6 decisions"),
        ("early_stop", "other", (EmitAll(), 8), "ok", "not used"),
        ("speed", "", (8, 10_000), "ok", "a draft of 8"),
        ("speed", "", (8, 0), "warn", "more than a chunk of 0 ms"),
    ],
)
def test_what_an_engine_with_a_fault_is_told(check, fault, rest, status, found):
    said = getattr(engine_checks, check)(Drafts(fault), CASES, *rest)
    assert said.status == status
    assert found in said.result
    assert "set debug.early_stop to false" in said.fix or fault != "other" or status == "ok"


@pytest.mark.parametrize(
    ("dtype", "error", "noise", "status"),
    [
        ("float32", 0.0, 0.0, "ok"),
        ("float32", 1e-3, 0.0, "FAIL"),
        ("float32", float("nan"), 0.0, "FAIL"),
        ("bfloat16", 1e-3, 0.0, "ok"),  # the mean is below the paper's bound
        ("bfloat16", 1e-1, 0.0, "FAIL"),
        ("bfloat16", 1e-1, 2e-1, "ok"),  # not more than the type does by itself
        ("bfloat16", 1e-1, 8e-2, "ok"),  # two engines, each with this error
        ("bfloat16", 1e-1, 6e-2, "FAIL"),
    ],
)
def test_rows_against_the_reference(monkeypatch, dtype, error, noise, status):
    model = ModelConfig(path=str(find_path("micro_models/gemma4")), dtype="auto")
    drafts = Drafts()
    answers = [drafts.draft(c.request(parity_check.PARITY_TOKENS)).rows for c in CASES]

    def reference(model, wanted, asked):
        shift = error + (noise if wanted == "float32" and dtype != "float32" else 0)
        found = [AttentionRows(r.source.copy(), r.prompt, r.suffix) for r in answers]
        for rows in found:
            rows.source[:, :, 1] += shift
        return found

    monkeypatch.setattr(parity_check, "_reference", reference)
    monkeypatch.setattr(parity_check, "logprob_gap", lambda *_: (2e-4, 1e-2))
    check = parity_check.parity(drafts, model, CASES, dtype)
    assert check.status == status
    assert dtype in check.result
    assert check.fix == (engine_checks.REPORT_ROWS if status == "FAIL" else "")
    # Where log-probabilities differ already, no row is blamed.
    monkeypatch.setattr(parity_check, "logprob_gap", lambda *_: (float("nan"), 1e-2))
    check = parity_check.parity(drafts, model, CASES, dtype)
    assert check.status == status
    assert ("compute different functions" in check.result) == (status == "FAIL")
    assert check.fix == (parity_check.OTHER_MODEL if status == "FAIL" else "")


def test_rounded_constants_of_vllm_are_a_warning(monkeypatch, tmp_path):
    drafts, model = Drafts(), ModelConfig(path=str(tmp_path), dtype="float32")
    random_models.write("apertus", tmp_path)
    rows = [drafts.draft(c.request(8)).rows for c in CASES]
    shifted = [AttentionRows(r.source + np.float32(6e-4), r.prompt, r.suffix) for r in rows]
    monkeypatch.setattr(parity_check, "_reference", lambda *_: shifted)
    monkeypatch.setattr(parity_check, "logprob_gap", lambda *_: (2e-4, 1e-2))
    check = parity_check.parity(drafts, model, CASES, "float32")
    assert (check.status, check.fix) == ("warn", parity_check.OTHER_TYPE)
    assert "xIELU" in check.result


def test_rows_of_another_model_are_not_blamed(engines, checkpoints, tmp_path):
    """Transformers reads other weights than vLLM serves."""
    drafts, other = engines.translation, random_models.write("gemma4", tmp_path / "other", seed=1)
    same, wrong = (
        ModelConfig(path=str(path), dtype="float32") for path in (checkpoints / "gemma4", other)
    )
    cases = [Case(make_prompt(seed, 90, 5, 40), Readout(HEADS, "predicting")) for seed in range(2)]
    assert parity_check.parity(drafts, same, cases, "float32").status == "ok"
    gap, bar = parity_check.logprob_gap(drafts, same, cases, "float32")
    assert gap < 1e-3 < bar
    check = parity_check.parity(drafts, wrong, cases, "float32")
    assert (check.status, check.fix) == ("FAIL", parity_check.OTHER_MODEL)
    assert "vLLM and Transformers compute different functions" in check.result
    # In another type, too, whatever that does to Transformers itself.
    check = parity_check.parity(drafts, wrong, cases, "bfloat16")
    assert (check.status, check.fix) == ("FAIL", parity_check.OTHER_MODEL)


def test_rows_are_not_compared_without_memory(monkeypatch):
    monkeypatch.setattr(parity_check, "free_memory", lambda: GIB)
    monkeypatch.setattr(parity_check, "weight_bytes", lambda model: GIB)
    check = parity_check.parity(Drafts(), ModelConfig(path="x"), CASES, "bfloat16")
    assert check.status == "warn"
    assert "4.0 GiB; 1.0 GiB are free" in check.result


def test_an_engine_that_fails_is_a_line_of_the_report():
    def check():
        raise EngineError("translation model x: died\nand more")

    (line,) = engine_checks.guarded("rows", check)
    assert (line.status, line.result) == ("FAIL", "translation model x: died")
