"""Checkpoints that cannot be used are named before a model is loaded, each with what to do."""

import json
from pathlib import Path

import pytest
import yaml
from simulstream.config import _dict_to_object

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, identity, locate_one
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.resources import find_path
from alignatt_agent.doctor.config_checks import check_asking
from alignatt_agent.translation.prompt import PromptError

REFUSES = "{{ raise_exception('System role not supported') }}"
REASONS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>{% endif %}"
)
FIRST, SECOND, THIRD = (digit * 40 for digit in "abc")


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Two revisions of one model in the cache of the hub; the second is what it has today."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--nobody--two"
    for revision in (FIRST, SECOND):
        (folder / "snapshots" / revision).mkdir(parents=True)
        (folder / "snapshots" / revision / "config.json").write_text(json.dumps(revision))
        (folder / "snapshots" / revision / "model.safetensors").write_bytes(b"")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(SECOND)
    return folder / "snapshots"


@pytest.mark.parametrize(("asked", "taken"), [(FIRST, FIRST), (SECOND, SECOND), (None, SECOND)])
def test_two_revisions_in_one_cache(cached, asked, taken):
    model = ModelConfig(path="nobody/two", revision=asked)
    assert locate_one(model) == cached / taken
    located = model.model_copy(update={"path": str(cached / taken)})
    signed = identity(model, located)
    assert signed == f"nobody/two@{asked}" if asked else signed.startswith("nobody/two#sha256:")
    other = model.model_copy(update={"path": str(cached / FIRST)})
    assert asked or (identity(model, other) != signed) == (taken != FIRST)


def test_a_revision_that_is_not_there_is_fetched_though_others_are(cached):
    with pytest.raises(CheckpointError, match=rf"`alignatt fetch nobody/two@{THIRD}`"):
        locate_one(ModelConfig(path="nobody/two", revision=THIRD))
    (cached / FIRST / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"incomplete \(missing: \*\.safetensors\); fetch it"):
        locate_one(ModelConfig(path="nobody/two", revision=FIRST))


@pytest.fixture
def config_with(tmp_path, monkeypatch):
    """Return ``micro-low`` with a changed copy of one model; no engine may start."""
    monkeypatch.setattr(AlignAttAgent.runtime, "load", lambda _: pytest.fail("engines start"))

    def change(role, gone=(), **written):
        config = load_config("micro-low")
        folder = tmp_path / role
        folder.mkdir()
        for file in Path(find_path(getattr(config.models, role).path)).iterdir():
            if file.name not in {*gone, *written}:
                (folder / file.name).symlink_to(file)
        for name, text in written.items():
            (folder / name).write_text(text, encoding="utf-8")
        models = config.model_dump(mode="json")["models"]
        models[role]["path"] = str(folder)
        changed = {**config.model_dump(mode="json"), "models": models}
        if role == "translation":  # its head sets belong to another path
            changed |= {"head_sets": {}, "policy": {"name": "local_agreement"}, "targets": {}}
        return AgentConfig.parse(changed)

    return change


def load(config):
    AlignAttAgent.load_model(_dict_to_object(yaml.safe_load(config.to_yaml())))


@pytest.mark.parametrize("role", ["asr", "aligner", "translation"])
def test_a_checkpoint_without_a_tokenizer(config_with, role):
    config = config_with(role, gone=("tokenizer.json", "tokenizer_config.json"))
    with pytest.raises(CheckpointError, match=rf"{role} model .* has no tokenizer; expected tok"):
        load(config)


@pytest.mark.parametrize(
    ("template", "message", "fix"),
    [
        (REFUSES, r"System role not supported; set prompt\.system to null", "set prompt.system to"),
        (REASONS, r"opens an answer with '.*<think>', but puts '.*assist", "disable reasoning as "),
    ],
    ids=["refuses the system turn", "opens a reasoning turn"],
)
def test_a_template_that_cannot_be_used(config_with, template, message, fix):
    config = config_with("translation", **{"chat_template.jinja": template})
    with pytest.raises(PromptError, match=message):
        load(config)
    check = check_asking(resolve(config))
    assert (check.status, check.fix[: len(fix)]) == ("FAIL", fix)


def test_a_slow_tokenizer(config_with, monkeypatch):
    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.is_fast", property(lambda _: False))
    with pytest.raises(PromptError, match=r"is slow .* add a tokenizer\.json to"):
        load(config_with("translation"))
