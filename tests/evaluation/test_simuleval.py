"""SimulEval's JSONL: its elapsed times hold the computation of the whole talk so far."""

from __future__ import annotations

import pytest

from tests.evaluation import logs
from tests.fakes import agent as fakes

CHUNK_S = 0.3
"""Computation of a chunk."""


@pytest.fixture
def score_only(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset", (120,))

    def run(entries, out, *more):
        path = logs.write(tmp_path / f"{out}.jsonl", entries)
        status, scores = logs.rescore(path, devset, tmp_path / out, more=more)
        return status, capsys.readouterr(), scores

    return run


def adding_up(entries):
    """Return entries whose elapsed times hold the computation of all chunks so far."""
    for entry in entries:
        chunks = {delay: place for place, delay in enumerate(sorted(set(entry["delays"])))}
        entry["elapsed"] = [
            delay + 1000 * CHUNK_S * (chunks[delay] + 1) for delay in entry["delays"]
        ]
    return entries


def test_times_that_add_up_are_noticed_and_corrected(score_only):
    log = logs.lines((120,), computation_s=CHUNK_S, names=("talk0",))
    simuleval = adding_up(logs.as_jsonl(log))
    status, printed, wrong = score_only(simuleval, "wrong")
    assert status == 0
    assert "elapsed of talk0 goes on for 18 s after the recording" in printed.err
    assert "--fix-simuleval-ca (OmniSTEval's --fix_simuleval_emission_ca)" in printed.err
    status, printed, fixed = score_only(simuleval, "fixed", "--fix-simuleval-ca")
    assert status == 0
    assert "after the recording" not in printed.err
    assert "--fix_simuleval_emission_ca" in printed.out  # in the official command
    expected = fixed["longyaal_cu_ms"] + 1000 * CHUNK_S
    assert fixed["longyaal_ca_ms"] == pytest.approx(expected, abs=0.01)
    assert fixed["longyaal_cu_ms"] == wrong["longyaal_cu_ms"]
    assert wrong["longyaal_ca_ms"] > expected + 2000
    assert "made incremental" in fixed["signature"]["latency"]


def test_the_correction_of_other_logs_is_refused(score_only, capsys):
    status, printed, _ = score_only(logs.lines(), "out", "--fix-simuleval-ca")
    assert status == 2
    assert "is Simulstream's; --fix-simuleval-ca is for SimulEval's JSONL" in printed.err
    given = ["--target", "de", "--devset", "none", "--output", "none"]
    assert fakes.evaluate([*given, "--fix-simuleval-ca"]) == 2
    assert "--fix-simuleval-ca has no meaning without --score-only" in capsys.readouterr().err
