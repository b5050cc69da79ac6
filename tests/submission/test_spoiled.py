"""Every way of spoiling a valid bundle is caught by name."""

import json
import shutil

import pytest
import yaml

from alignatt_agent.cli import run
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.submission.bundle import SystemName, write_checksums
from alignatt_agent.submission.check import check_bundle

LOW_DE, LOW_ZH = SystemName("low", "en", "de"), SystemName("low", "en", "zh")


def edited(part, change):
    """Spoil a file of a system; JSON is YAML, too."""

    def spoil(bundle):
        path = getattr(bundle.system(LOW_DE), part)
        content = yaml.safe_load(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return spoil


def logged(change):
    """Spoil the entries of a log."""

    def spoil(bundle):
        path = bundle.system(LOW_DE).metrics
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        change(entries)
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))

    return spoil


def improve(entries):
    """A better text: only scoring the log again tells."""
    for entry in entries:
        tokens = entry.get("generated_tokens", [])
        entry["generated_tokens"] = [token.replace("Wort1", "Wort2") for token in tokens]


def remove_a_talk(entries):
    entries[:] = [entry for entry in entries if entry.get("id") != 1]


def of_version(package, version):
    return edited("scores", lambda it: it["signature"]["versions"].update({package: version}))


def log_of_another_target(bundle):
    shutil.copyfile(bundle.system(LOW_ZH).metrics, bundle.system(LOW_DE).metrics)


def high_latency_as_low(bundle):
    high = SystemName("high", "en", "de")
    shutil.rmtree(bundle.system(LOW_DE).folder)
    shutil.copytree(bundle.system(high).folder, bundle.system(LOW_DE).folder)
    shutil.copyfile(bundle.image_agent(high), bundle.image_agent(LOW_DE))


def keep_only(bundle, name):
    facts = json.loads(bundle.facts.read_text())
    for other in facts["systems"]:
        if other != str(name):
            shutil.rmtree(bundle.system(SystemName.parse(other)).folder)
    facts["systems"] = [str(name)]
    bundle.facts.write_text(json.dumps(facts))
    write_checksums(bundle)


def contexts_of_talks(bundle):
    """As a bundle of an earlier version: signed, scored and served with contexts."""
    config = load_config(str(bundle.system(LOW_DE).config), {"speech.context": {"talk0": ["Wort"]}})
    for path in (bundle.system(LOW_DE).config, bundle.image_agent(LOW_DE)):
        path.write_text(config.to_yaml())
    edited("scores", lambda it: it["signature"].update(config_sha256=config.digest()))(bundle)


def serve_other_settings(bundle):
    config = load_config(str(bundle.image_agent(LOW_DE)), {"speech.hold_back_ms": 300})
    bundle.image_agent(LOW_DE).write_text(config.to_yaml())


@pytest.mark.parametrize(
    ("spoil", "rules", "message"),
    [
        (contexts_of_talks, {"contexts"}, "names and terms for 1 talk(s) (talk0), but the HTTP"),
        (serve_other_settings, {"image"}, "image/systems/low/en-de.yaml: the hash is"),
        (lambda bundle: bundle.image_agent(LOW_DE).unlink(), {"image"}, "no agent config named"),
        (logged(lambda entries: entries[-1].update(deleted_tokens=["Wort1"])), {"append-only"}, ""),
        (log_of_another_target, {"direction"}, "the output is not de"),
        *(
            (of_version(name, "0.0.9"), {"versions"}, f"the run used {name} 0.0.9, but")
            for name in ("omnisteval", "simulstream", "alignatt_agent", "vllm")
        ),
        (
            edited("scores", lambda it: it["signature"]["versions"].pop("vllm")),
            *({"versions"}, "scores.json contains no version of vllm, but the image contains"),
        ),
        (
            edited("config", lambda it: it["speech"].update(hold_back_ms=700.0)),
            *({"config", "image"}, ""),
        ),
        (
            edited("config", lambda it: it.update(schedule="overlap")),
            *({"config"}, "schedule: Input should be 'sync' (got 'overlap')"),
        ),
        (
            lambda bundle: bundle.system(LOW_DE).proxy.unlink(),
            *({"files"}, "low/en-de/proxy.yaml: the file is missing"),
        ),
        (
            lambda bundle: (bundle.devset / "ref" / "de.txt").write_text("one line\n"),
            *({"devset"}, ""),
        ),
        (
            lambda bundle: bundle.system(LOW_DE).scores.write_text("[]"),
            *({"scores", "config"}, "scores.json does not exist or is incomplete"),
        ),
    ],
)
def test_a_spoiled_bundle(bundle, spoil, rules, message):
    """The checksums are renewed, as a clever cheat would."""
    spoil(bundle)
    write_checksums(bundle)
    findings = check_bundle(bundle.root, rescoring=False).findings
    assert {finding.rule for finding in findings} == rules
    assert any(message in str(finding) for finding in findings)


@pytest.mark.parametrize(
    ("spoil", "rules", "message"),
    [
        (logged(improve), {"scores"}, "bleu is 100.0 in scores.json, but"),
        (
            logged(remove_a_talk),
            *({"missing-talk", "scores"}, "the log contains 1 of 2 talks; missing: talk1"),
        ),
        (high_latency_as_low, {"regime"}, "outside low (0-2 s)"),
    ],
)
def test_a_spoiled_bundle_that_is_scored_again(bundle, spoil, rules, message):
    spoil(bundle)
    keep_only(bundle, LOW_DE)
    findings = check_bundle(bundle.root).findings
    assert {finding.rule for finding in findings} == rules
    assert message in str(findings[0])
    assert "regime high" in findings[0].fix or rules != {"regime"}


def test_changed_file(bundle):
    with bundle.readme.open("a") as stream:
        stream.write("one more line\n")
    (bundle.root / "notes.txt").write_text("added later")
    (bundle.image / "LICENSE").touch()
    (bundle.image / "source" / "LICENSE").unlink()
    report = check_bundle(bundle.root, rescoring=False)
    found = {item.where: item.message for item in report.findings if item.rule == "checksum"}
    assert found["README.md"].startswith("the file changed")
    assert "added after" in found["notes.txt"]
    assert "missing" in found["image/source/LICENSE"]


def test_exit_status_and_text(bundle, capsys, tmp_path):
    assert run("submission", ["check", str(bundle.root), "--skip-scores"]) == 0
    assert "no violation found; the logs were not scored again" in capsys.readouterr().out
    logged(lambda entries: entries.extend(entries[:]))(bundle)
    assert run("submission", ["check", str(bundle.root), "--skip-scores"]) == 1
    text = capsys.readouterr().out
    assert "[rerun-appended] systems/low/en-de/metrics.jsonl: the log contains 2 runs" in text
    assert "fix: Simulstream appends to an existing log: delete the log" in text
    assert "violation(s)" in text
    assert run("submission", ["check", str(tmp_path)]) == 2
    assert "was not built by" in capsys.readouterr().err
    bundle.facts.write_text('{"format": 2}')
    assert run("submission", ["check", str(bundle.root)]) == 2
