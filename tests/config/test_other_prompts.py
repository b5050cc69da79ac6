"""A head set that was calibrated under another prompt is named, once, when engines start."""

from __future__ import annotations

import json
import logging

import pytest
from simulstream.config import yaml_config

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.sections import PromptConfig
from tests.fakes.agent import FakeAgent, head_set, write_config

OURS = PromptConfig().digest("en", "de")


@pytest.fixture
def start(tmp_path, caplog):
    """Start the agent with a head set of this prompt; returns what it warned of."""
    FakeAgent._warned.clear()

    def run(prompt_sha256, **changes):
        path = write_config(tmp_path, **changes)
        content = head_set(prompt_sha256=prompt_sha256)
        (tmp_path / "fake-en-de.json").write_text(json.dumps(content))
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                FakeAgent.load_model(yaml_config(str(path)))
        return [item.message for item in caplog.records if "another prompt" in item.message]

    return run


@pytest.mark.parametrize("known", [None, OURS])
def test_the_same_prompt_and_an_unknown_one_pass(start, known):
    assert start(known) == []


def test_another_prompt_is_named_once(start):
    (message,) = start(OURS, prompt={"before": "Translate: "})
    assert "head set fake-en-de was calibrated under another prompt" in message
    assert OURS in message
    assert "alignatt calibrate run --config" in message


def test_shipped_sets_of_the_embedded_model_know_their_prompt():
    config = load_config("micro-low")
    for target, name in config.head_sets.items():
        assert load_head_set(name).prompt_sha256 == config.prompt.digest("en", target)
