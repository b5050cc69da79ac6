"""The parity matrix passes if rows are right, and reports the fault if they are not."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from alignatt_agent.config.resources import find_path
from alignatt_agent.types import AttentionRows, Draft, Prompt
from alignatt_agent.types.engines import Readout
from lab.parity import __main__ as parity
from lab.parity import run as parity_run
from lab.parity.cases import BUDGET, MODES, SUBJECTS, subject
from lab.parity.cells import Ask, Cell, RequestResult
from lab.stand_ins import random_models

HEADS = ((0, 0), (0, 1), (1, 0))
TOKENS, WIDTH = 6, 12
PROMPT = Prompt(tuple(range(20)), 4, tuple(range(WIDTH)))
ASK = Ask(PROMPT, HEADS[:2], TOKENS, Readout(HEADS, "predicting"))


def some_rows() -> AttentionRows:
    rng = np.random.default_rng(0)
    source = rng.dirichlet(np.full(WIDTH, 0.3), (TOKENS, len(HEADS))).astype(np.float32) * 0.7
    return AttentionRows(source, 0.9 - source.sum(-1), np.full(source.shape[:2], 0.1, np.float32))


def answer(rows: AttentionRows | None, **changes) -> RequestResult:
    ids = tuple(range(TOKENS))
    logprobs = tuple(((token, -0.5),) for token in ids)
    return replace(RequestResult(ids, logprobs, 0, Draft(ids, False, rows)), **changes)


class FakeReferences(parity_run.References):
    """Rows of Transformers eager, fused and in float32."""

    path = str(find_path("micro_models/gemma4"))

    def __init__(self, fused=None, exact=None) -> None:
        self._fused, self._exact = fused or ROWS, exact or ROWS

    def rows(self, prompt, ids, readout, dtype, seam) -> AttentionRows:
        if seam == "sdpa":
            return self._fused
        return self._exact if dtype == "float32" else ROWS

    def logprobs(self, prompt, ids) -> np.ndarray:
        return np.full((len(ids), 32), -0.5)


def judged(captured, plain=None, references=None, **changes) -> list[str]:
    options = {"trained": True, "dtype": "float32", "situation": "alone", **changes}
    cell = Cell(subject="model", mode="eager", **options)
    references = references or FakeReferences()
    parity_run.fill(cell, [ASK], [captured], [plain or captured], references)
    json.dumps(cell.summary())
    return cell.problems


def shifted(rows: AttentionRows, by: float) -> AttentionRows:
    """The same peaks and decisions, every weight a little larger."""
    return replace(rows, source=rows.source + np.float32(by))


ROWS = some_rows()
OTHER = replace(ROWS, source=ROWS.source[..., ::-1].copy())  # other decisions
RIGHT, FAR = answer(ROWS), answer(shifted(ROWS, 1e-3))
BF16, PREFIX = {"dtype": "bfloat16"}, {"situation": "prefix"}
NOISY = FakeReferences(exact=shifted(ROWS, 2e-3))  # bfloat16 in Transformers itself


def first_logprob(value, rows=ROWS):
    """An answer whose first log-probability differs."""
    return answer(rows, logprobs=(((0, value),), *RIGHT.logprobs[1:]))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (shifted(ROWS, 2e-4), r"max \|dA\| 2\.0e-04 > 1e-04"),
        (shifted(ROWS, np.nan), r"max \|dA\| nan"),
        (replace(ROWS, prompt=ROWS.prompt + 0.01), "mass"),
        (replace(ROWS, suffix=ROWS.suffix * np.nan), "mass"),
        (replace(ROWS, source=ROWS.source[::-1]), "argmax: "),
        (OTHER, "decisions: "),
    ],
)
def test_wrong_rows_are_flagged(rows, problem):
    assert any(re.search(problem, text) for text in judged(answer(rows)))


@pytest.mark.parametrize(
    ("captured", "options", "problem"),
    [
        (RIGHT, {}, None),
        (answer(shifted(ROWS, 5e-5)), {}, None),
        (RIGHT, {"plain": answer(None, sampled=(9,) * TOKENS)}, "token ids with .* 0 of 1 are "),
        (RIGHT, {"plain": first_logprob(np.nextafter(-0.5, 0))}, "logprobs with .* 0 of 1 are "),
        # Log-probabilities are compared first: other models are named, and rows not blamed.
        (first_logprob(-0.6, OTHER), {}, r"different functions: .* differ by 1\.0e-01 > 1e-02"),
        (first_logprob(np.nan), {}, "different functions: .* differ by nan"),
        # bfloat16 is held to the paper or to the noise, on trained models.
        (FAR, BF16, "mean .* > noise"),
        (FAR, {**BF16, "trained": False}, None),
        (FAR, {**BF16, "references": NOISY}, None),
        # A situation that did not arise.
        (RIGHT, PREFIX, "a prompt did not hit the prefix cache"),
        (answer(ROWS, cached=32), PREFIX, None),
        (answer(ROWS, cached=32), {"situation": "chunked"}, "a prompt hit the prefix cache"),
        (answer(ROWS, draft=Draft((), False, ROWS)), {}, "no row was compared"),
    ],
)
def test_bars_are_met_or_named(captured, options, problem):
    found = judged(captured, **options)
    assert len(found) == bool(problem)
    assert not problem or re.search(problem, found[0])


@pytest.mark.parametrize(
    ("references", "held"),
    [
        (FakeReferences(), True),
        (FakeReferences(fused=OTHER), False),
        (FakeReferences(exact=OTHER), False),
    ],
)
def test_decisions_that_hang_on_rounding_are_not_held_against_bfloat16(references, held):
    problems = judged(answer(OTHER), references=references, **BF16)
    assert any("decisions" in problem for problem in problems) == held


def test_constants_that_vllm_rounds_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeReferences, "path", str(random_models.write("apertus", tmp_path)))
    *_, reason = judged(answer(shifted(ROWS, 6e-4)))
    assert re.search("constants of this model's activation .xIELU.*capture is correct", reason)
    assert not any("xIELU" in problem for problem in judged(answer(shifted(ROWS, 0.05))))


def test_an_engine_that_fails_is_named(tmp_path, monkeypatch, capsys):
    def fail(model, heads, stops, situations):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(parity_run, "in_new_process", fail)
    arguments = ["--output", str(tmp_path), "--only", "llama", "--quick"]
    assert parity.main(arguments) == 1
    errors = capsys.readouterr().err
    assert "llama/eager/float32/chunked: llama eager float32 with capture: " in errors
    assert "RuntimeError: out of luck" in errors
    document = json.loads((tmp_path / "parity.json").read_text())
    assert [cell["passed"] for cell in document["cells"]] == [False] * 4


def test_subjects_are_served_in_every_situation(tmp_path):
    for name in SUBJECTS:
        item = subject(name, tmp_path)
        for situation, calls in item.situations().items():
            assert calls
            lengths = [len(ask.prompt.token_ids) for call in calls for ask in call.asks]
            if situation in ("alone", "chunked"):
                assert all((length > BUDGET) == (situation == "chunked") for length in lengths)
        rows = {ask.readout.row for call in item.situations()["chunked"] for ask in call.asks}
        assert rows == {"predicting", "emitted"}
    with pytest.raises(ValueError, match="unknown architecture"):
        subject("gpt", tmp_path)


def test_a_small_matrix_passes(tmp_path):
    *cells, seam = parity_run.measure(
        [subject("gemma4-random", tmp_path)], {"eager": MODES["eager"]}, ("float32",)
    )
    assert [cell.problems for cell in cells] == [[]] * 4
    assert [cell.situation for cell in cells] == ["alone", "batched", "prefix", "chunked"]
    assert all(cell.tokens > 30 and cell.verdicts.settled for cell in cells)
    assert all(cell.same_dtype.largest > 0 for cell in cells)  # computed twice, not copied
    assert (seam.name, seam.problems) == ("gemma4-random/transformers/float32/sdpa", [])
    assert seam.same_dtype.largest > 0
