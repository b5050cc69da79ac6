"""A bundle of synthetic runs: what is in it, and which builds are refused."""

import json
import subprocess

import pytest
import yaml
from simulstream.server.speech_processors.remote.http_proxy_speech_processor import (
    HttpProxySpeechProcessor,
)

from alignatt_agent.cli import run
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.submission.bundle import (
    Bundle,
    SubmissionError,
    SystemName,
    checksums,
    unserved_contexts,
)
from alignatt_agent.submission.image import write_image
from tests.fakes import agent as fakes

LOW_DE, LOW_ZH = SystemName("low", "en", "de"), SystemName("low", "en", "zh")


def test_everything_is_in_a_valid_bundle(world, bundle):
    for said in ("bundle: valid, 4 systems", "low/en-de", "low/en-zh", "high/en-de", "high/en-zh"):
        assert said in world.printed
    facts = json.loads(bundle.facts.read_text())
    assert facts["team"] == "Fake Team"
    assert facts["talks"] == {
        "talk0": pytest.approx(13, abs=0.001),
        "talk1": pytest.approx(8.5, abs=0.001),
    }
    assert not list(bundle.root.rglob("__pycache__"))
    assert not list(bundle.root.rglob("*.wav"))


def test_proxy_and_scorers_are_told_how_units_are_joined(bundle):
    proxy = yaml.safe_load(bundle.system(LOW_ZH).proxy.read_text())
    assert f"{HttpProxySpeechProcessor.__module__}.HttpProxySpeechProcessor" == proxy["type"]
    scorers = yaml.safe_load(bundle.system(LOW_ZH).evaluation.read_text())
    assert scorers == {"detokenizer_type": "simuleval", "latency_unit": "char"}
    assert scorers.items() <= proxy.items()


def test_the_image_runs_what_was_scored(bundle):
    for path in (bundle.system(LOW_DE).config, bundle.image_agent(LOW_DE)):
        assert yaml.safe_load(path.read_text())["speech"]["context"] == []


def test_only_contexts_that_the_image_can_use_are_served():
    def problem(context):
        return unserved_contexts(load_config("micro-low", {"speech.context": context}))

    assert problem(None) is None
    assert problem(["Chomsky", "vLLM"]) is None
    assert problem({"talk0": [], "talk1": []}) is None
    assert problem({"": ["vLLM"], "talk0": ["vLLM"]}) is None
    assert "for 1 talk(s) (talk1), but the HTTP server" in problem({"talk0": [], "talk1": ["vLLM"]})
    many = {f"talk{number}": ["vLLM"] for number in range(5)}
    assert "for 5 talk(s) (talk0, talk1, talk2, ...), but" in problem(many)


def test_checksums_are_those_of_sha256sum(bundle):
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=bundle.root, check=True)
    assert checksums(bundle)["submission.json"] in bundle.sums.read_text()


def test_readmes_hold_exact_commands(bundle):
    top = bundle.readme.read_text()
    assert "fake@example.org" in top
    assert "[en-de](systems/low/en-de/README.md) | low (0-2 s)" in top
    assert "docker build -t fake-team image" in top
    text = bundle.system(LOW_ZH).readme.read_text()
    for command in (
        "--publish 8080:8080",
        'image/weights:/weights:ro" fake-team low/en-zh',
        "simulstream_inference --speech-processor-config systems/low/en-zh/proxy.yaml",
        "--tgt-lang zh --src-lang en",
        "--simulstream_config_file systems/low/en-zh/evaluation.yaml",
        "--char_level --lang zh --bleu_tokenizer zh",
        "--ref_sentences_file devset/ref/zh.txt",
    ):
        assert command in text, command
    for left in ("{{ ", "{%", "}}/"):
        assert left not in text + top
    assert "docker inspect --format '{{.State.Status}}' fake-team-low-en-zh" in text


def build(world, monkeypatch, capsys, **changes):
    monkeypatch.chdir(world.folder)
    given = {
        "--config": "fake-low.yaml",
        "--runs": "runs/fake-low",
        "--target": "de",
        "--devset": "devset",
        "--output": "other",
    } | {f"--{key}": value for key, value in changes.items()}
    flat = [item for pair in given.items() for item in pair]
    monkeypatch.setattr("alignatt_agent.submission.cli._check", lambda given: 0)
    status = run("submission", ["build", *flat])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": "fake-high.yaml"}, "fake-high.yaml has changed since the run runs/fake-low/de"),
        ({"runs": "of-talks"}, "of-talks/de/agent.yaml: speech.context has names and terms for 1"),
        ({"runs": "of-talks"}, "--devset devset --set speech.context=[]"),
        ({"runs": "nowhere"}, "is not a scored run: it lacks agent.yaml, metrics.jsonl"),
        ({"target": "it"}, "runs/fake-low/it is not a scored run"),
        ({"target": "Klingon"}, "unknown language"),
        (
            {"config": "fake.yaml"},
            "names of the configurations end in fake; expected a",
        ),
        ({"output": "devset"}, "is neither empty nor a bundle"),
        ({"output": "fake-low.yaml"}, "is a file"),
        ({"devset": "nowhere"}, "audio-segments.yaml does not exist"),
    ],
)
def test_refused_builds(world, monkeypatch, capsys, changes, message):
    status, error = build(world, monkeypatch, capsys, **changes)
    assert status == 2
    assert message in error
    assert (world.folder / "devset" / "wav" / "talk0.wav").is_file()


def test_build_replaces_a_bundle_and_leaves_no_old_file(world, monkeypatch, capsys):
    assert build(world, monkeypatch, capsys)[0] == 0
    stale = world.folder / "other" / "systems" / "low" / "stale.txt"
    stale.write_text("from an earlier build")
    assert build(world, monkeypatch, capsys)[0] == 0
    assert not stale.exists()


def test_paths_of_this_machine_do_not_go_into_an_image(world, monkeypatch, tmp_path):
    config = load_config(str(fakes.write_config(tmp_path))).for_target("de")
    with pytest.raises(SubmissionError, match="a path on this machine"):
        write_image(Bundle(tmp_path / "out"), {LOW_DE: config})
