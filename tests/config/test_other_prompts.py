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


@pytest.mark.parametrize(
    ("known", "changes", "warned"),
    [(None, {}, 0), (OURS, {}, 0), (OURS, {"prompt": {"before": "Translate: "}}, 1)],
)
def test_another_prompt_is_named_once(tmp_path, caplog, known, changes, warned):
    FakeAgent._warned.clear()
    config = yaml_config(str(write_config(tmp_path, **changes)))
    (tmp_path / "fake-en-de.json").write_text(json.dumps(head_set(prompt_sha256=known)))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            FakeAgent.load_model(config)
    messages = [item.message for item in caplog.records if "another prompt" in item.message]
    assert len(messages) == warned
    for message in messages:
        assert "head set fake-en-de was calibrated under another prompt" in message
        assert OURS in message
        assert "alignatt calibrate run --config" in message


def test_shipped_sets_of_the_embedded_model_know_their_prompt():
    config = load_config("micro-low")
    for target, name in config.head_sets.items():
        assert load_head_set(name).prompt_sha256 == config.prompt.digest("en", target)
