"""What a rehearsal takes for a failure, on fake engines; with real ones: tests/engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulstream.config import yaml_config

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.config.head_sets import load_head_set
from lab.stand_ins import rehearsal
from lab.stand_ins.__main__ import main, real_configurations
from lab.stand_ins.layouts import SHAPES
from lab.stand_ins.rehearsal import Rehearsal, as_written, stream
from tests.fakes.agent import FakeAgent, talk, write_config


@pytest.fixture
def rehearsed(tmp_path, monkeypatch):
    """Stream a fake talk into German; returns what the rehearsal found."""
    monkeypatch.setattr(rehearsal, "AlignAttAgent", FakeAgent)

    def run(gated=True, **changes):
        config = yaml_config(str(write_config(tmp_path, **changes)))
        FakeAgent.load_model(config)
        found = Rehearsal("fake", "fake-mt", "refused", "de")
        stream(found, config, talk(13), gated)
        return found

    return run


def test_what_a_rehearsal_takes_for_a_failure(rehearsed, monkeypatch):
    found = rehearsed()
    assert (found.problems, found.chunks, found.sentences, found.units) == ([], 9, 1, 13)
    assert found.drafts_with_rows > 0
    agreement = {"policy": {"name": "local_agreement", "drafts": 2}, "head_sets": {}}
    assert rehearsed(gated=False, **agreement).problems == []
    assert rehearsed(**agreement).problems == ["no rows were read, though there is a head set"]
    monkeypatch.setattr(FakeAgent, "tokens_to_string", lambda self, tokens: "".join(tokens))
    assert any("units do not rebuild" in item for item in rehearsed().problems)


def test_every_real_configuration_has_a_stand_in_of_its_shape(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = real_configurations()
    assert {"iwslt26-high", "default-low", "whisper-low", "gemma4-audio-low"} < set(names)
    for name in names:
        config = load_config(name)
        _, sizes = SHAPES[config.models.translation.path]
        for item in map(load_head_set, config.head_sets.values()):
            assert item.num_layers == sizes["num_hidden_layers"]
            assert item.num_heads == sizes["num_attention_heads"]
        assert as_written(config)[1] == []


def test_front_ends_have_stand_ins_of_their_own(monkeypatch, tmp_path):
    """One that hears and translates is written once, apart from one that only translates."""
    monkeypatch.setattr(rehearsal, "_write", lambda role, config, path: path.mkdir(parents=True))
    found = {}
    for name in ("default-low", "whisper-low", "gemma4-audio-low"):
        config = rehearsal.stand_in(load_config(name), tmp_path)
        assert config.speech == load_config(name).speech
        models = config.models
        found[name] = {role: Path(getattr(models, role).path) for role in models.roles}
    plain, whisper, gemma = found.values()
    assert gemma["asr"] == gemma["translation"] != plain["translation"]
    assert gemma["translation"].name == plain["translation"].name == "gemma-4-E4B-it"
    assert whisper["asr"].name == "whisper-large-v3"
    for role in ("aligner", "translation"):
        assert whisper[role] == plain[role]


def test_what_cannot_be_rehearsed_is_refused():
    with pytest.raises(ConfigError, match="there is no stand-in for micro_models/gemma4"):
        main(["--config", "micro-low"])
