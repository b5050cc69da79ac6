"""The command line: what it explains, refuses and asks before money is spent."""

import pytest

from alignatt_agent.cli import main as alignatt

BASE = ["run", "--model", "micro_models/gemma4", "--target", "de", "--pairs", "micro:9"]


def main(arguments):
    return alignatt(["calibrate", *arguments])


def test_help_explains_pairs_files(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = capsys.readouterr().out
    for words in ("Pharaoh pairs", '"# evaluation"', "micro:N[:SEED]"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "no-such-file"], "no-such-file does not exist"),
        (["--pairs", "micro_models/devset/ref/de.txt"], "lies in the dev set devset"),
        (["--held-out", "1.5"], "a share lies between 0 and 1"),
        (["--target", "xx"], "unknown language 'xx'"),
        (["--source", "fr"], "en-de/it/zh, not fr-de"),
        (["--devset", "tests"], "tests is not a dev set"),
        (["--aligner", "openai"], "needs --endpoint URL and --aligner-model"),
        (["--model", "no/such-model"], "alignatt fetch no/such-model"),
        (["--config", "no-such"], "no agent config named 'no-such'"),
        (["--model", ""], "--model or --config has to name the model"),
        (["--model", "", "--config", "hy-mt-1.8b-low"], "tencent/HY-MT1.5-1.8B`"),
    ],
)
def test_nothing_is_started(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main([*BASE, *arguments, "--output", str(tmp_path / "set.json")]) == 2
    assert message in capsys.readouterr().err
