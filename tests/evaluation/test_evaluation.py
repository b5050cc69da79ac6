"""``simulstream-eval`` from end to end on fake engines and real scorers."""

import pytest
import yaml

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.evaluation.agent_choice import choose_agent
from tests.fakes import agent as fakes


def test_dry_run_loads_nothing(call):
    status, text, _ = call("--dry-run")
    assert status == 0
    assert "no model was loaded" in text
    assert not (call.root / "out").exists()
    assert fakes.FakeAgent.runtime.starts == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "alignat"), "entry point of simulstream.agents (alignatt4llm"),
        (("--set", "policy"), "expects KEY=VALUE"),
        (("--set", "chunk_ms.x=1"), "chunk_ms"),
        (("--set", "policy.top_k=9"), "has 2 heads"),
        (("--set", "keep_up=true"), "keep_up: unknown key"),
        (("--target", "it"), "no head set for en-it"),
        (("--source", "fr"), "direction en-de, not for fr-de"),
        (("--devset", "/nowhere"), "audio-segments.yaml does not exist"),
    ],
)
def test_nothing_starts_on_a_mistake(call, arguments, message):
    status, _, error = call(*arguments)
    assert status == 2
    assert message in error
    assert fakes.FakeAgent.runtime.starts == 0


def test_agents_by_entry_point_class_and_yaml(tmp_path):
    config = fakes.write_config(tmp_path)
    with pytest.raises(ConfigError, match="--config is missing"):
        choose_agent("alignatt4llm", None, {})
    named = choose_agent("alignatt4llm", "micro-low", {})
    dotted = choose_agent("tests.fakes.agent.FakeAgent", "micro-low", {})
    path = choose_agent(str(config), None, {"policy.name": "none"})
    assert named.cls.__name__ == "AlignAttAgent"
    assert dotted.cls is path.cls is fakes.FakeAgent
    assert yaml.safe_load(dotted.resolved_yaml("de"))["type"] == "tests.fakes.agent.FakeAgent"
    assert yaml.safe_load(path.resolved_yaml("zh"))["policy"]["name"] == "none"
    assert yaml.safe_load(path.resolved_yaml("zh"))["latency_unit"] == "char"
