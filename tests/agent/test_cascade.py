"""The agent's runtime caches the engines."""

import pytest
from simulstream.config import yaml_config

from alignatt_agent.types import EngineError
from tests.fakes.agent import FakeAgent, talk, write_config


def written(folder, **changes):
    return yaml_config(str(write_config(folder, **changes)))


def test_a_dead_engine_is_started_again_by_load_model(runtime_of_agents, tmp_path):
    config = written(tmp_path)
    FakeAgent.load_model(config)
    FakeAgent.load_model(config)
    assert runtime_of_agents.started == [("qwen3-asr", True)]
    runtime_of_agents.dead = True
    FakeAgent.load_model(config)
    assert runtime_of_agents.started[1:] == [("qwen3-asr", False)]  # a stream waits


def test_another_recognizer_on_the_same_checkpoints_is_another_key(runtime_of_agents, tmp_path):
    config = written(tmp_path)
    whisper = written(tmp_path, speech={"recognizer": "whisper", "hold_back_ms": 0})
    FakeAgent.load_model(config)
    FakeAgent.load_model(whisper)
    assert runtime_of_agents.started == [("qwen3-asr", True), ("whisper", True)]
    agent = FakeAgent(config)
    agent.set_target_language("de")
    with pytest.raises(EngineError, match=r"not loaded: .* call it again"):
        agent.process_chunk(talk(8))
