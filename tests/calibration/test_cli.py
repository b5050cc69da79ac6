"""The command line: what it explains, refuses and asks before money is spent."""

from __future__ import annotations

import json

import pytest

from alignatt_agent.cli import main as alignatt
from tests.fakes.agent import head_set

BASE = ["run", "--model", "micro_models/gemma4", "--direction", "en-de"]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    # alignatt sets defaults for engine processes; they must not leak into other tests.
    from alignatt_agent.config.quiet import QUIET

    for name in QUIET:
        monkeypatch.setenv(name, QUIET[name])


def main(arguments):
    return alignatt(["calibrate", *arguments])


def help_of(capsys, *command):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_documents_the_pairs_file(capsys):
    text = help_of(capsys, "run")
    for words in ("Pharaoh pairs", '"# evaluation"', "micro:N[:SEED]"):
        assert words in text


@pytest.mark.parametrize("command", ["run", "explain", "export", "unite"])
def test_every_command_has_help_with_an_example(capsys, command):
    assert command in help_of(capsys)
    assert f"\n  alignatt calibrate {command} " in help_of(capsys, command).replace("    ", "  ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "no-such-file"], "no-such-file does not exist"),
        (["--pairs", "micro_models/devset/ref/de.txt"], "lies in the dev set devset"),
        (["--pairs", "micro:9", "--held-out", "1.5"], "a share lies between 0 and 1"),
        (["--pairs", "micro:9", "--direction", "ende"], "expected SOURCE-TARGET such as en-de"),
        (["--pairs", "micro:9", "--direction", "en-xx"], "unknown language 'xx'"),
        (["--pairs", "micro:9", "--devset", "tests"], "tests is not a dev set"),
        (["--pairs", "micro:9", "--aligner", "openai"], "needs --endpoint URL and --aligner-model"),
        (["--pairs", "micro:9", "--model", "no/such-model"], "hf download no/such-model"),
        (["--pairs", "micro:9", "--config", "no-such"], "no agent config named 'no-such'"),
    ],
)
def test_nothing_is_started(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main([*BASE, *arguments, "--output", str(tmp_path / "set.json")]) == 2
    assert message in capsys.readouterr().err


def test_a_configuration_names_the_model(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command = ["run", "--direction", "en-de", "--pairs", "micro:9"]
    output = ["--output", str(tmp_path / "set.json")]
    assert main([*command, *output]) == 2
    assert "--model or --config has to name the model" in capsys.readouterr().err
    assert main([*command, *output, "--config", "hy-mt-1.8b-low"]) == 2
    assert "hf download tencent/HY-MT1.5-1.8B`; pin it" in capsys.readouterr().err


def test_no_money_without_yes(capsys, tmp_path):
    command = [*BASE, "--pairs", "micro:9", "--aligner", "openai", "--aligner-model", "m"]
    command += ["--endpoint", "http://127.0.0.1:9/v1", "--price", "0.25", "2"]
    assert main([*command, "--output", str(tmp_path / "set.json")]) == 2
    out = capsys.readouterr().out
    assert "about 9 requests" in out
    assert "US dollars" in out
    assert "Nothing was sent; add --yes to go on." in out


def test_export_and_unite(capsys, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    assert main(["export", "--pairs", "micro:5:9", "--direction", "en-zh", str(pairs)]) == 0
    assert len(pairs.read_text(encoding="utf-8").splitlines()) == 5
    assert main(["export", "--pairs", "micro:5", "--direction", "en-zh", "pairs.txt"]) == 2
    for code in ("de", "it"):
        (tmp_path / f"{code}.json").write_text(json.dumps(head_set(f"en-{code}")))
    sets = [str(tmp_path / f"{code}.json") for code in ("de", "it")]
    output = tmp_path / "union.json"
    assert main(["unite", *sets, "--keep", "1", "--output", str(output)]) == 0
    union = json.loads(output.read_text())
    assert (union["direction"], union["prompt_sha256"]) == ("en-de+en-it", None)
    (tmp_path / "de.json").write_text(json.dumps(head_set(prompt_sha256="1")))
    (tmp_path / "it.json").write_text(json.dumps(head_set("en-it", prompt_sha256="1")))
    assert main(["unite", *sets, "--keep", "1", "--output", str(output)]) == 0
    assert json.loads(output.read_text())["prompt_sha256"] == "1"
    assert main(["unite", sets[0], "no-such-set", "--output", str(output)]) == 2
    assert "no head set named 'no-such-set'" in capsys.readouterr().err
