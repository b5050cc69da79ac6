"""A bundle from synthetic runs is valid; every way of spoiling it is caught by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from alignatt_agent.cli import run
from alignatt_agent.submission.bundle import Bundle, SystemName, checksums, write_checksums
from alignatt_agent.submission.check import check_bundle
from alignatt_agent.submission.cli import build_parser
from tests.fakes import agent as fakes

ROOT = Path(__file__).resolve().parents[2]
LOW_DE, LOW_ZH = SystemName("low", "en", "de"), SystemName("low", "en", "zh")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A working directory with runs of two operating points and what building printed."""
    folder = tmp_path_factory.mktemp("submission")
    relative = {
        "models": {
            "asr": {"path": "checkpoints/asr"},
            "aligner": {"path": "checkpoints/aligner"},
            "translation": {"path": "checkpoints/fake-mt"},
        },
        "head_sets": {"de": "./fake-en-de.json", "zh": "./fake-en-zh.json"},
    }
    speech = {"low": {"hold_back_ms": 0}, "high": {"hold_back_ms": 1500}}
    for regime, settings in speech.items():
        fakes.write_config(folder, **relative, speech=settings).rename(
            folder / f"fake-{regime}.yaml"
        )
    devset = fakes.write_devset(folder / "devset", (26, 17))
    (devset / "contexts").mkdir()
    for wav in (devset / "wav").glob("*.wav"):
        (devset / "contexts" / f"{wav.stem}.txt").write_text("Wort\n")
    _run(
        folder,
        *("-m", "alignatt_agent.cli", "eval", "--agent", "tests.fakes.agent.FakeAgent"),
        *("--config", "fake-low.yaml", "fake-high.yaml", "--target", "de", "zh"),
        *("--devset", "devset", "--output", "runs"),
    )
    built = _run(folder, "-m", "alignatt_agent.cli", "submission", "build", *ARGUMENTS)
    return folder, built


ARGUMENTS = (
    *("--config", "fake-low.yaml", "fake-high.yaml", "--runs", "runs/fake-low", "runs/fake-high"),
    *("--target", "German", "zh", "--output", "bundle"),
    *("--team", "Fake Team", "--contact", "fake@example.org"),
)


def _run(folder, *arguments):
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def bundle(world, tmp_path):
    """A copy that a test may spoil."""
    copy = tmp_path / "bundle"
    shutil.copytree(world[0] / "bundle", copy)
    return Bundle(copy)


def rules(bundle):
    return {finding.rule for finding in check_bundle(bundle.root, rescoring=False).findings}


def edit_log(bundle, name, change, signed=True):
    """Change the entries of a log; ``signed`` renews the checksums, as a clever cheat would."""
    path = bundle.system(name).metrics
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    entries = change(entries) or entries
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    if signed:
        write_checksums(bundle)


def test_built_and_valid(world):
    _, text = world
    assert "bundle: valid, 4 systems" in text
    for name in ("low/en-de", "low/en-zh", "high/en-de", "high/en-zh"):
        assert name in text


def test_everything_is_in_it(bundle):
    facts = json.loads(bundle.facts.read_text())
    assert facts["team"] == "Fake Team"
    assert facts["devset"]["talks"] == {
        "talk0": pytest.approx(13, abs=0.001),
        "talk1": pytest.approx(8.5, abs=0.001),
    }
    for name in (
        "image/Dockerfile",
        "image/.dockerignore",
        "image/server.yaml",
        "image/source/alignatt_agent/agent.py",
        "image/source/requirements/cuda.txt",
        "image/systems/high/en-zh.yaml",
        "image/weights/checkpoints/fake-mt/config.json",
        "image/weights/fake-en-de.json",
        "devset/audio-segments.yaml",
        "devset/ref/zh.txt",
        "systems/low/en-de/metrics.jsonl",
        "systems/low/en-de/proxy.yaml",
        "systems/low/en-de/evaluation.yaml",
        "systems/low/en-de/scores.json",
    ):
        assert (bundle.root / name).is_file(), name
    assert not list(bundle.root.rglob("__pycache__"))
    assert not list(bundle.root.rglob("*.wav"))


def test_the_contexts_of_the_dev_set_are_part_of_the_configuration(bundle):
    for path in (bundle.system(LOW_DE).config, bundle.image_agent(LOW_DE)):
        context = yaml.safe_load(path.read_text())["speech"]["context"]
        assert context == {"talk0": ["Wort"], "talk1": ["Wort"]}


def test_a_run_with_other_contexts_is_refused(world, monkeypatch, tmp_path, capsys):
    devset = tmp_path / "devset"
    shutil.copytree(world[0] / "devset", devset)
    (devset / "contexts" / "talk0.txt").write_text("Ada Lovelace\n")
    status, error = build(world, monkeypatch, capsys, devset=str(devset))
    assert status == 2
    assert f"as it is now, contexts of {devset} included" in error
    assert f"--devset {devset}" in error


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


def test_tampered_log(bundle):
    """A better text and renewed checksums: only scoring the log again tells."""

    def improve(entries):
        for entry in entries:
            tokens = entry.get("generated_tokens", [])
            entry["generated_tokens"] = [token.replace("Wort1", "Wort2") for token in tokens]

    _only(bundle, LOW_DE)
    edit_log(bundle, LOW_DE, improve)
    report = check_bundle(bundle.root)
    assert {finding.rule for finding in report.findings} == {"scores"}
    assert any("bleu is 100.0 in scores.json, but" in str(item) for item in report.findings)


def test_tampered_times(bundle):
    def earlier(entries):
        for entry in entries:
            if "total_audio_processed" in entry:
                entry["total_audio_processed"] -= 0.5

    edit_log(bundle, LOW_DE, earlier)
    assert {"chunks", "cut-talk"} <= rules(bundle)


def test_changed_file(bundle):
    edit_log(bundle, LOW_DE, lambda entries: None, signed=False)
    with bundle.readme.open("a") as stream:
        stream.write("one more line\n")
    (bundle.root / "notes.txt").write_text("added later")
    (bundle.image / "LICENSE").touch()
    (bundle.image / "source" / "LICENSE").unlink()
    report = check_bundle(bundle.root, rescoring=False)
    found = {item.where: item.message for item in report.findings if item.rule == "checksum"}
    assert found["README.md"].startswith("changed")
    assert "added after" in found["notes.txt"]
    assert "missing" in found["image/source/LICENSE"]


def test_missing_talk(bundle):
    edit_log(bundle, LOW_DE, lambda entries: [e for e in entries if e.get("id") != 1])
    report = check_bundle(bundle.root, rescoring=False)
    (finding,) = report.findings
    assert finding.rule == "missing-talk"
    assert "talks missing from the log: talk1 (1 of 2 are there)" in finding.message


def test_missing_talk_cannot_be_scored(bundle):
    _only(bundle, LOW_DE)
    edit_log(bundle, LOW_DE, lambda entries: [e for e in entries if e.get("id") != 1])
    report = check_bundle(bundle.root)
    assert [finding.rule for finding in report.findings] == ["missing-talk", "scores"]
    assert "talks missing from the log: talk1 (1 of 2 are there)" in str(report.findings[1])


def test_rerun_appended(bundle):
    edit_log(bundle, LOW_DE, lambda entries: entries + entries)
    assert rules(bundle) == {"rerun-appended", "duplicate-talk"}


def test_deleted_tokens(bundle):
    def revoke(entries):
        entries[-1]["deleted_tokens"] = ["Wort1"]

    edit_log(bundle, LOW_DE, revoke)
    assert rules(bundle) == {"append-only"}


def test_wrong_direction_log_of_another_target(bundle):
    shutil.copyfile(bundle.system(LOW_ZH).metrics, bundle.system(LOW_DE).metrics)
    write_checksums(bundle)
    report = check_bundle(bundle.root, rescoring=False)
    assert {finding.rule for finding in report.findings} == {"direction"}
    assert "the output is not de" in report.findings[0].message


def test_over_regime_latency(bundle):
    """The high-latency run handed in as the low-latency one."""
    high = SystemName("high", "en", "de")
    shutil.rmtree(bundle.system(LOW_DE).folder)
    shutil.copytree(bundle.system(high).folder, bundle.system(LOW_DE).folder)
    shutil.copyfile(bundle.image_agent(high), bundle.image_agent(LOW_DE))
    _only(bundle, LOW_DE)
    report = check_bundle(bundle.root)
    (finding,) = report.findings
    assert finding.rule == "regime"
    assert "outside low (0-2 s)" in finding.message
    assert "regime high" in finding.fix


@pytest.mark.parametrize("package", ["omnisteval", "simulstream", "alignatt_agent", "vllm"])
def test_another_version(bundle, package):
    path = bundle.system(LOW_DE).scores
    scores = json.loads(path.read_text())
    scores["signature"]["versions"][package] = "0.0.9"
    path.write_text(json.dumps(scores))
    write_checksums(bundle)
    report = check_bundle(bundle.root, rescoring=False)
    assert {finding.rule for finding in report.findings} == {"versions"}
    assert any(f"{package} was 0.0.9, the image has" in item.message for item in report.findings)


def test_configuration_that_was_not_scored(bundle):
    path = bundle.system(LOW_DE).config
    content = yaml.safe_load(path.read_text())
    content["speech"]["hold_back_ms"] = 700.0
    path.write_text(yaml.safe_dump(content))
    write_checksums(bundle)
    assert rules(bundle) == {"config"}


def test_stages_that_overlap_are_no_official_system(bundle):
    path = bundle.system(LOW_DE).config
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**content, "schedule": "overlap"}))
    write_checksums(bundle)
    messages = [str(item) for item in check_bundle(bundle.root, rescoring=False).findings]
    assert any("schedule: overlap; official scores" in item for item in messages)


def test_a_missing_file(bundle):
    bundle.system(LOW_DE).proxy.unlink()
    write_checksums(bundle)
    messages = [str(item) for item in check_bundle(bundle.root, rescoring=False).findings]
    assert any("low/en-de/proxy.yaml: the file is missing" in item for item in messages)


def test_changed_references(bundle):
    path = bundle.devset / "ref" / "de.txt"
    path.write_text(path.read_text().replace("Wort1", "Wort2"))
    write_checksums(bundle)
    assert rules(bundle) == {"devset"}
    path.write_text("one line\n")
    write_checksums(bundle)
    assert rules(bundle) == {"devset"}


def test_exit_status_and_text(bundle, capsys, tmp_path):
    assert run("submission", ["check", str(bundle.root), "--skip-scores"]) == 0
    assert "no violation found; the logs were not scored again" in capsys.readouterr().out
    edit_log(bundle, LOW_DE, lambda entries: entries + entries, signed=False)
    assert run("submission", ["check", str(bundle.root), "--skip-scores"]) == 1
    text = capsys.readouterr().out
    assert "[rerun-appended] systems/low/en-de/metrics.jsonl: holds 2 runs" in text
    assert "fix: Simulstream appends to an existing log: delete it" in text
    assert "violation(s)" in text
    assert run("submission", ["check", str(tmp_path)]) == 2
    assert "is not a bundle" in capsys.readouterr().err
    bundle.facts.write_text('{"format": 2}')
    assert run("submission", ["check", str(bundle.root)]) == 2


def build(world, monkeypatch, capsys, **changes):
    monkeypatch.chdir(world[0])
    given = {
        "--config": "fake-low.yaml",
        "--runs": "runs/fake-low",
        "--target": "de",
        "--output": "other",
    } | {f"--{key}": value for key, value in changes.items()}
    flat = [item for pair in given.items() for item in pair]
    status = run("submission", ["build", *flat, "--no-check"])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"config": "fake-high.yaml", "regimes": "low"},
            "was not run with fake-high.yaml as it is",
        ),
        ({"runs": "nowhere"}, "is not a scored run, it lacks agent.yaml, metrics.jsonl"),
        ({"target": "it"}, "runs/fake-low/it is not a scored run"),
        ({"target": "Klingon"}, "unknown language"),
        ({"config": "fake.yaml"}, "add --regimes"),
        ({"output": "devset"}, "not empty and not a bundle, so it is left alone"),
        ({"output": "fake-low.yaml"}, "is a file"),
        ({"devset": "nowhere"}, "audio-segments.yaml does not exist"),
    ],
)
def test_refused_builds(world, monkeypatch, capsys, changes, message):
    status, error = build(world, monkeypatch, capsys, **changes)
    assert status == 2
    assert message in error
    assert (world[0] / "devset" / "wav" / "talk0.wav").is_file()


def test_converted_recordings_lie_in_no_dev_set(world, monkeypatch, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(world[0] / "runs" / "fake-low" / "de", run / "de")
    shutil.copytree(world[0] / "devset" / "wav", run / "audio")
    wavs = sorted((run / "audio").iterdir())
    (run / "de" / "wavs.txt").write_text("".join(f"{wav}\n" for wav in wavs))
    given = {"runs": str(run), "output": str(tmp_path / "bundle")}
    status, error = build(world, monkeypatch, capsys, **given)
    assert status == 2
    assert "name the dev set with --devset DIR" in error
    status, error = build(world, monkeypatch, capsys, **given, devset="devset")
    assert status == 0, error


def test_build_replaces_a_bundle_and_leaves_no_old_file(world, monkeypatch, capsys):
    assert build(world, monkeypatch, capsys)[0] == 0
    stale = world[0] / "other" / "systems" / "low" / "stale.txt"
    stale.write_text("from an earlier build")
    assert build(world, monkeypatch, capsys)[0] == 0
    assert not stale.exists()


def test_paths_of_this_machine_do_not_go_into_an_image(world, monkeypatch, tmp_path):
    from alignatt_agent.config.agent_config import load_config
    from alignatt_agent.submission.bundle import SubmissionError
    from alignatt_agent.submission.image import write_image

    config = load_config(str(fakes.write_config(tmp_path))).for_target("de")
    with pytest.raises(SubmissionError, match="a path of this machine"):
        write_image(Bundle(tmp_path / "out"), {LOW_DE: config})


def test_the_old_name_of_an_option_is_refused(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["build", "--targets", "de"])
    assert "--targets is now --target" in capsys.readouterr().err


def _only(bundle, name):
    facts = json.loads(bundle.facts.read_text())
    for other in facts["systems"]:
        if other != str(name):
            shutil.rmtree(bundle.system(SystemName.parse(other)).folder)
    facts["systems"] = [str(name)]
    bundle.facts.write_text(json.dumps(facts))
    write_checksums(bundle)
