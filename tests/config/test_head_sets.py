"""Head sets refuse what does not fit and say what would."""

import json
import logging

import pytest
from simulstream.config import yaml_config

from alignatt_agent.config.head_sets import HeadSetError, load_head_set
from alignatt_agent.config.prompt import PromptConfig
from tests.fakes.agent import FakeAgent, head_set, write_config


@pytest.mark.parametrize(
    ("name", "model", "targets", "shape"),
    [
        ("gemma4", "google/gemma-4-E4B-it", ("de", "it", "zh"), (42, 8)),
        ("milmmt46", "xiaomi-research/MiLMMT-46-4B-v0.1", ("de", "it", "zh"), (34, 8)),
        ("qwen3-1.7b", "Qwen/Qwen3-1.7B", ("de",), (28, 16)),
    ],
)
def test_provisional_head_sets_of_real_models(name, model, targets, shape):
    for target in targets:
        loaded = load_head_set(f"{name}-en-{target}")
        assert loaded.provisional
        assert len(loaded.top(8)) == 8
        assert list(loaded.ts) == sorted(loaded.ts, reverse=True)
        loaded.check(model, *shape, f"en-{target}", loaded.revision)
        assert name != "gemma4" or loaded.heads[0] == (11, 3)
    load_head_set(f"{name}-any").check(model, *shape, "en-fr")


def written(tmp_path, **changes):
    path = tmp_path / "set.json"
    path.write_text(json.dumps(head_set(**changes)))
    return load_head_set(str(path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "other/model"}, "model checkpoints/fake-mt, not for other/model"),
        ({"num_layers": 5}, "number of layers 4, not for 5"),
        ({"num_heads": 3}, "number of heads 2, not for 3"),
        ({"direction": "en-it"}, "direction en-de, not for en-it"),
        ({"revision": "b" * 40}, "revision"),
    ],
)
def test_head_set_of_something_else(tmp_path, changed, message):
    loaded = written(tmp_path, revision="a" * 40)
    fitting = {"model": "fake-mt", "num_layers": 4, "num_heads": 2, "direction": "en-de"}
    loaded.check(*fitting.values(), None)
    with pytest.raises(HeadSetError, match=message):
        loaded.check(*({**fitting, "revision": "a" * 40} | changed).values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": "both"}, "should be 'predicting' or 'emitted'"),
        ({"heads": []}, "should have at least 1 item"),
        ({"heads": [{"layer": 9, "head": 0, "ts": 1}]}, r"heads \[\(9, 0\)\] do not exist"),
        ({"heads": [{"layer": 1, "ts": 1}]}, "KeyError 'head'"),
        ({"heads": [{"layer": 1, "head": 1, "ts": 1}] * 2}, "listed twice"),
    ],
)
def test_malformed_head_set(tmp_path, changes, message):
    with pytest.raises(HeadSetError, match=message):
        written(tmp_path, **changes)


OURS = PromptConfig().digest("en", "de")


@pytest.mark.parametrize(
    ("known", "changes", "warned"),
    [(None, {}, 0), (OURS, {}, 0), (OURS, {"prompt": {"before": "Translate: "}}, 1)],
)
def test_another_prompt_is_named_once(tmp_path, caplog, known, changes, warned):
    config = yaml_config(str(write_config(tmp_path, **changes)))
    (tmp_path / "fake-en-de.json").write_text(json.dumps(head_set(prompt_sha256=known)))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            FakeAgent.load_model(config)
    messages = [item.message for item in caplog.records if "another prompt" in item.message]
    assert len(messages) == warned
    for message in messages:
        assert "head set fake-en-de was calibrated with another prompt" in message
        assert OURS in message
        assert "alignatt calibrate run --config" in message
