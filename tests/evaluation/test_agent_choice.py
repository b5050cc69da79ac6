"""The configuration that an evaluation chooses is the one that `alignatt translate` chooses."""

import pytest
import yaml

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.evaluation.agent_choice import choose_agent
from tests.fakes.agent import write_config


def test_the_spoken_language_of_the_command_is_validated(tmp_path):
    """No aligner is loaded for Czech, whose words it cannot time."""
    path = str(write_config(tmp_path))
    untimed = {"head_sets": {}, "policy.name": "none"}
    chosen = choose_agent("alignatt4llm", path, untimed, source="Czech", targets=["de"]).config
    assert chosen == load_config(path, {**untimed, "source_language": "cs", "type": chosen.type})
    assert chosen.models.engine_roles == ("asr", "translation")
    assert choose_agent("alignatt4llm", path, {}, targets=["de"]).config.models.aligner is not None


def test_a_spoken_language_that_needs_an_aligner(tmp_path):
    path = write_config(tmp_path)
    raw = yaml.safe_load(path.read_text())
    raw["source_language"] = "cs"
    del raw["models"]["aligner"]
    path.write_text(yaml.safe_dump(raw))
    with pytest.raises(ConfigError, match=r"models\.aligner, which times the words, is missing"):
        choose_agent("alignatt4llm", str(path), {}, source="en", targets=["de"])
