"""Failures that a rehearsal reports, on fake engines; two that pass, on real ones."""

from pathlib import Path

import pytest
from simulstream.config import yaml_config

from alignatt_agent import agent
from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.config.head_sets import load_head_set
from lab.stand_ins import __main__ as stand_ins
from lab.stand_ins import rehearsal
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
    assert rehearsed(**agreement).problems == ["no rows were read, although there is a head set"]
    monkeypatch.setattr(agent, "_joined", lambda tokens, target: "".join(tokens))
    assert any("differs from the units" in item for item in rehearsed().problems)


def test_every_real_configuration_has_a_stand_in_of_its_shape(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = stand_ins.real_configurations()
    assert {"iwslt26-high", "default-low", "whisper-low", "gemma4-audio-low"} < set(names)
    for name in names:
        config = load_config(name)
        _, sizes = SHAPES[config.models.translation.path]
        for item in map(load_head_set, config.head_sets.values()):
            assert item.num_layers == sizes["num_hidden_layers"]
            assert item.num_heads == sizes["num_attention_heads"]
        assert as_written(config)[1] == []


def test_front_ends_have_stand_ins_of_their_own(monkeypatch, tmp_path):
    """A model of both roles is written once, apart from one that only translates."""
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
    with pytest.raises(ConfigError, match="no stand-in for micro_models/gemma4"):
        stand_ins.main(["--config", "micro-low"])


def test_two_configurations_run_on_published_shapes_and_rows_are_exact(tmp_path, runtime):
    runtime.close()  # for the memory of its engines
    # The second one uses Whisper: only its engine and the translation's start anew.
    other = load_config("hy-mt-1.8b-low", {"speech.recognizer": "whisper"})
    models = other.models.model_copy(update={"asr": load_config("whisper-low").models.asr})
    path = tmp_path / "hy-mt-whisper.yaml"
    path.write_text(other.model_copy(update={"models": models}).to_yaml(), encoding="utf-8")
    found = list(stand_ins.run(["milmmt46-low", str(path)], stand_ins.talk(3.0), tmp_path))
    assert [item.problems for item in found] == [[]] * len(found)
    assert [(item.model, item.target) for item in found] == [
        *(("MiLMMT-46-4B-v0.1", target) for target in ("de", "it", "zh", "fr")),
        *(("HY-MT1.5-1.8B", target) for target in ("de", "zh")),
    ]
    for item in found:
        assert item.tokens
        gated = item.name == "milmmt46-low"
        assert (item.drafts_with_rows > 0) == gated
        assert item.rows.startswith("float32: max |dA|") == gated
