"""The command line: what it refuses before money is spent."""

import pytest

from alignatt_agent.cli import main

BASE = ["--config", "micro-low", "--target", "de", "--pairs", "micro:9"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "no-such-file"], "no-such-file does not exist"),
        (["--pairs", "micro_models/devset/ref/de.txt"], "is in the dev set devset"),
        (["--held-out", "1.5"], "expected a share between 0 and 1"),
        (["--target", "xx"], "unknown language 'xx'"),
        (["--source", "fr"], "en-de/it/zh, not fr-de"),
        (["--devset", "tests"], "tests is not a dev set"),
        (["--aligner", "openai"], "needs --endpoint URL and --aligner-model"),
        (["--config", "no-such"], "no agent config named 'no-such'"),
        (["--config", "hy-mt-1.8b-low"], "alignatt fetch tencent/HY-MT1.5-1.8B`"),
    ],
)
def test_nothing_is_started(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    output = ["--output", str(tmp_path / "set.json")]
    assert main(["calibrate", "run", *BASE, *arguments, *output]) == 2
    assert message in capsys.readouterr().err
