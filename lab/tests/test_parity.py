"""The parity matrix passes where rows are right, and says so where they are not."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from alignatt_agent.config.resources import find_path
from alignatt_agent.types import AttentionRows, Prompt
from alignatt_agent.types.engines import Readout
from lab.parity import __main__ as parity
from lab.parity import run as parity_run
from lab.parity.cases import BUDGET, MODES, SUBJECTS, subject
from lab.parity.cells import Answer, Ask, Case, Cell
from lab.stand_ins import random_models

HEADS = ((0, 0), (0, 1), (1, 0))
TOKENS, WIDTH = 6, 12
ASK = Ask(
    Case(Prompt(tuple(range(20)), 4, tuple(range(WIDTH))), HEADS[:2]),
    TOKENS,
    Readout(HEADS, "predicting"),
)


def some_rows(seed: int = 0) -> AttentionRows:
    rng = np.random.default_rng(seed)
    source = rng.dirichlet(np.full(WIDTH, 0.3), (TOKENS, len(HEADS))).astype(np.float32) * 0.7
    return AttentionRows(source, 0.9 - source.sum(-1), np.full(source.shape[:2], 0.1, np.float32))


def answer(rows: AttentionRows | None, **changes) -> Answer:
    logprobs = tuple(((token, -0.5),) for token in range(TOKENS))
    plain = Answer(tuple(range(TOKENS)), logprobs, 0, tuple(range(TOKENS)), False, rows)
    return dataclasses.replace(plain, **changes)


class FakeReferences(parity_run.References):
    """Rows of Transformers eager, fused and in float32."""

    path = str(find_path("micro_models/gemma4"))

    def __init__(self, same, fused=None, exact=None) -> None:
        self._found = (same, fused or same, exact or same)

    def rows(self, prompt, ids, readout, dtype, seam) -> AttentionRows:
        same, fused, exact = self._found
        if seam == "sdpa":
            return fused
        return exact if dtype == "float32" else same

    def logprobs(self, prompt, ids) -> np.ndarray:
        return np.full((len(ids), 32), -0.5)


def judged(
    captured: Answer,
    plain: Answer | None = None,
    references: FakeReferences | None = None,
    **changes,
) -> list[str]:
    options = {"trained": True, "dtype": "float32", "situation": "alone", **changes}
    cell = Cell(subject="model", mode="eager", **options)
    references = references or FakeReferences(some_rows())
    parity_run.fill(cell, [ASK], [captured], [plain or captured], references)
    json.dumps(cell.summary())
    return cell.problems


def shifted(rows: AttentionRows, by: float) -> AttentionRows:
    """The same peaks and decisions, every weight a little larger."""
    return dataclasses.replace(rows, source=rows.source + np.float32(by))


def test_right_rows_pass():
    assert judged(answer(some_rows())) == []
    assert judged(answer(shifted(some_rows(), 5e-5))) == []


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda rows: shifted(rows, 2e-4), r"max \|dA\| 2\.0e-04 > 1e-04"),
        (lambda rows: shifted(rows, np.nan), r"max \|dA\| nan"),
        (lambda rows: dataclasses.replace(rows, prompt=rows.prompt + 0.01), "mass"),
        (lambda rows: dataclasses.replace(rows, suffix=rows.suffix * np.nan), "mass"),
        (lambda rows: dataclasses.replace(rows, source=rows.source[::-1]), "argmax: "),
        (lambda rows: dataclasses.replace(rows, source=rows.source[..., ::-1]), "decisions: "),
    ],
)
def test_wrong_rows_are_flagged(spoil, problem):
    problems = judged(answer(spoil(some_rows())))
    assert any(_matches(problem, text) for text in problems)


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def test_other_output_without_capture_is_flagged():
    ours = answer(some_rows())
    ids = answer(None, sampled=(9, *range(1, TOKENS)))
    assert judged(ours, ids) == ["token ids with and without capture: 0 of 1 the same"]
    off = ((0, float(np.nextafter(-0.5, 0))),)
    logprobs = answer(None, logprobs=(off, *ours.logprobs[1:]))
    assert judged(ours, logprobs) == ["logprobs with and without capture: 0 of 1 the same"]


def test_other_models_are_named_and_rows_not_blamed():
    """Log-probabilities are compared first."""
    wrong = shifted(some_rows(), 0.1)
    off = (((0, -0.6),), *answer(None).logprobs[1:])
    (problem,) = judged(answer(wrong, logprobs=off))
    assert _matches(r"different models: log-probabilities .* differ by 1\.0e-01 > 1e-02", problem)
    (problem,) = judged(answer(wrong, logprobs=(((0, np.nan),), *off[1:])))
    assert "different models" in problem
    assert any("dA" in problem for problem in judged(answer(wrong)))


def test_constants_that_vllm_rounds_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeReferences, "path", str(random_models.write("apertus", tmp_path)))
    *_, reason = judged(answer(shifted(some_rows(), 6e-4)))
    assert _matches(
        "constants of this model's activation .xIELU. in bfloat16.*not at fault", reason
    )
    assert not any("xIELU" in problem for problem in judged(answer(shifted(some_rows(), 0.05))))


def test_bfloat16_is_held_to_the_paper_or_to_the_noise_floor():
    exact = some_rows()
    ours, bf16 = answer(shifted(exact, 1e-3)), {"dtype": "bfloat16"}
    assert _matches("mean .* > noise floor", judged(ours, **bf16)[0])
    assert judged(ours, **bf16, trained=False) == []
    noisy = FakeReferences(exact, exact=shifted(exact, 2e-3))  # bfloat16 in Transformers itself
    assert judged(ours, references=noisy, **bf16) == []


def test_decisions_that_hang_on_rounding_are_not_held_against_bfloat16():
    rows = some_rows()
    other = dataclasses.replace(rows, source=rows.source[..., ::-1].copy())
    options = {"dtype": "bfloat16", "captured": answer(other)}
    assert any("decisions" in problem for problem in judged(**options))
    for torn in (FakeReferences(rows, fused=other), FakeReferences(rows, exact=other)):
        cell_problems = judged(**options, references=torn)
        assert not any("decisions" in problem for problem in cell_problems)


def test_a_situation_that_did_not_arise_is_flagged():
    rows = some_rows()
    assert judged(answer(rows), situation="prefix") == ["a prompt did not hit the prefix cache"]
    assert judged(answer(rows, cached=32), situation="prefix") == []
    assert judged(answer(rows, cached=32), situation="chunked") == ["a prompt hit the prefix cache"]
    assert judged(answer(rows, token_ids=())) == ["no row was compared"]


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
            lengths = [len(ask.case.prompt.token_ids) for call in calls for ask in call.asks]
            if situation in ("alone", "chunked"):
                assert all((length > BUDGET) == (situation == "chunked") for length in lengths)
        rows = {ask.readout.row for call in item.situations()["chunked"] for ask in call.asks}
        assert rows == {"predicting", "emitted"}
    with pytest.raises(ValueError, match="unknown model"):
        subject("gpt", tmp_path)


def test_random_models_are_reproducible_and_wander(tmp_path):
    from alignatt_agent.engine.transformers_engine import TransformersEngine

    for name in random_models.ARCHITECTURES:
        first, second = (random_models.write(name, tmp_path / n / name) for n in "ab")
        weights = [(path / "model.safetensors").read_bytes() for path in (first, second)]
        assert weights[0] == weights[1]
        draft = TransformersEngine(str(first)).draft(ASK.case.prompt, 12)
        assert len(set(draft.token_ids)) > 3
    with pytest.raises(ValueError, match="unknown architecture"):
        random_models.write("gpt", tmp_path)


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
