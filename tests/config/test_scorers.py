"""Simulstream's and OmniSTEval's own commands take every shipped configuration as it is.

``simulstream_stats`` and ``simulstream_score_quality``, which needs COMET, read the file likewise.
"""

import logging
import shlex
import sys

import pytest
from omnisteval.cli import main as omnisteval
from simulstream.metrics import score_latency

from alignatt_agent.config.resources import find_resource, known_resources
from tests.evaluation import logs
from tests.fakes.agent import write_devset

COMMANDS = {
    "simulstream_score_latency": (
        score_latency.cli_main,
        "--eval-config {config} --log-file {log} --scorer stream_laal "
        "--reference {devset}/ref/de.txt --audio-definition {devset}/audio-segments.yaml",
        "Latency scores",
    ),
    "omnisteval": (
        omnisteval,
        "longform --simulstream_config_file {config} --hypothesis_file {log} "
        "--hypothesis_format simulstream --ref_sentences_file {devset}/ref/de.txt "
        "--speech_segmentation {devset}/audio-segments.yaml --word_level --lang de",
        "LongYAAL",
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", known_resources("agent_configs", ".yaml"))
def test_a_scorer_takes_a_shipped_file(command, name, tmp_path, monkeypatch, capsys):
    run, arguments, printed = COMMANDS[command]
    paths = {
        "config": find_resource("agent_configs", name, (".yaml",)),
        "log": logs.write(tmp_path / "run" / "metrics.jsonl", logs.lines()),
        "devset": write_devset(tmp_path / "devset"),
    }
    monkeypatch.setattr(sys, "argv", [command, *shlex.split(arguments.format(**paths))])
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    run()
    assert printed in capsys.readouterr().out
