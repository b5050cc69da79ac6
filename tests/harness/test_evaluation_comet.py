"""COMET runs in an environment of its own; here that environment is a stub."""

from __future__ import annotations

import json
import sys

import pytest

from alignatt_agent.evaluation.comet import CometError, comet_scores
from tests.harness import fakes, logs

STUB = """#!{python}
import json, sys
arguments = [item for item in sys.argv[1:] if item != "-P"]
worker, model, data, output = arguments
assert worker.endswith("comet_worker.py")
if model == "Unbabel/XCOMET-XXL":
    print("KeyError: not supported", file=sys.stderr)
    sys.exit(3)
if model == "broken":
    print("CUDA out of memory", file=sys.stderr)
    sys.exit(1)
rows = json.load(open(data))
scores = [0.9 if row["mt"] == row["ref"] else 0.1 for row in rows]
assert all(row["src"].startswith("word") for row in rows)
json.dump(scores if model != "short" else scores[1:], open(output, "w"))
"""


@pytest.fixture
def stub(tmp_path):
    path = tmp_path / "python"
    path.write_text(STUB.format(python=sys.executable))
    path.chmod(0o755)
    return path


TRIPLES = [("word0", "Wort0", "Wort0"), ("word1", "falsch", "Wort1")]


def test_scores_of_segments(stub):
    assert comet_scores(TRIPLES, "xcomet-xl", stub) == [0.9, 0.1]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("Unbabel/XCOMET-XXL", "hf download Unbabel/XCOMET-XXL"),
        ("broken", "ended with 1:\nCUDA out of memory"),
        ("short", "returned 1 scores for 2 segments"),
    ],
)
def test_what_goes_wrong(stub, model, message):
    with pytest.raises(CometError, match=message):
        comet_scores(TRIPLES, model, stub)


def run(tmp_path, capsys, *arguments, transcript=True):
    config = fakes.write_config(tmp_path)
    devset = fakes.write_devset(tmp_path / "devset")
    if transcript:
        (devset / "ref" / "en.txt").write_text(logs.transcript())
    given = ["--agent", config, "--target", "de", "--devset", devset, "--output", tmp_path / "out"]
    status = fakes.evaluate([str(item) for item in (*given, *arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_run_with_comet(tmp_path, capsys, stub):
    more = ["--comet", "xcomet-xl", "--comet-python", stub]
    status, text, error = run(tmp_path, capsys, *more)
    assert status == 0, error
    assert "COMET" in text
    assert "0.9000" in text
    found = json.loads((tmp_path / "out" / "de" / "scores.json").read_text())["comet"]
    assert found == {"model": "Unbabel/XCOMET-XL", "score": 0.9, "segments": [0.9] * 5}


def test_comet_is_added_to_a_finished_run(tmp_path, capsys, stub):
    assert run(tmp_path, capsys)[0] == 0
    more = ["--resume", "--comet", "xcomet-xl", "--comet-python", stub]
    status, text, error = run(tmp_path, capsys, *more)
    assert status == 0, error
    assert "scored before" in text
    assert "0.9000" in text


def test_no_environment_is_said_before_a_model_is_loaded(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, error = run(tmp_path, capsys, "--comet", "xcomet-xl")
    assert status == 2
    assert "make setup-comet" in error
    assert fakes.FakeAgent.starts == 0


def test_no_transcript(tmp_path, capsys, stub):
    more = ["--comet", "xcomet-xl", "--comet-python", stub]
    status, text, error = run(tmp_path, capsys, *more, transcript=False)
    assert status == 1
    assert "COMET needs the transcript of the speech" in error
    assert "100.00" in text  # the other scores are there
