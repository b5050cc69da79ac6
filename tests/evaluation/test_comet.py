"""COMET runs in an environment of its own; here that environment is a stub."""

import json
import shutil
import sys

import pytest

from alignatt_agent.evaluation.comet import CometError, comet_scores

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
json.dump(scores, open(output, "w"))
"""


@pytest.fixture(autouse=True)
def _stub(tmp_path, monkeypatch):
    path = tmp_path / "python"
    path.write_text(STUB.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setattr("alignatt_agent.evaluation.comet.PYTHON", path)


TRIPLES = [("word0", "Wort0", "Wort0"), ("word1", "falsch", "Wort1")]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("Unbabel/XCOMET-XXL", "hf download Unbabel/XCOMET-XXL"),
        ("broken", "exited with status 1:\nCUDA out of memory"),
    ],
)
def test_scores_of_segments_and_what_goes_wrong(model, message):
    assert comet_scores(TRIPLES, "xcomet-xl") == [0.9, 0.1]
    with pytest.raises(CometError, match=message):
        comet_scores(TRIPLES, model)


def scored(finished, out, *arguments, **changes):
    """Score with COMET what was scored without, in a folder of its own."""
    shutil.copytree(finished.root / "out" / "low" / "de", finished.root / out / "de")
    more = ["--comet", "xcomet-xl", *arguments]
    return finished(*more, configs=("low",), targets=("de",), out=out, **changes)


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_run_with_comet(finished, resume):
    out = "-".join(["comet", *resume])
    status, text, error = scored(finished, out, *resume)
    assert status == 0, error
    assert ("already scored" in text) == bool(resume)
    assert "COMET" in text
    assert "0.9000" in text
    found = json.loads((finished.root / out / "de" / "scores.json").read_text())["comet"]
    assert found == {"model": "Unbabel/XCOMET-XL", "score": 0.9, "segments": [0.9] * 5}


def test_no_transcript(finished, tmp_path):
    devset = tmp_path / "devset"
    shutil.copytree(finished.devset, devset)
    (devset / "ref" / "en.txt").unlink()
    status, text, error = scored(finished, "untold", "--resume", devset=devset)
    assert status == 1
    assert "COMET needs the transcript of the speech" in error
    assert "100.00" in text  # the other scores are there
