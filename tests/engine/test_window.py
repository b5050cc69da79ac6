"""The length of a request that is checked is the one with which the engine starts."""

import json

import pytest

from alignatt_agent.cascade.contexts import check_beginning, check_contexts
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.resources import find_path
from alignatt_agent.engine.arguments import engine_arguments, window_of
from alignatt_agent.speech.prompt import ContextError
from lab.stand_ins.speech import write_whisper


@pytest.mark.parametrize(("positions", "window"), [(2048, 2048), (1000, 1000), (131_072, 4096)])
def test_the_window_is_the_models(tmp_path, positions, window):
    text = {"model_type": "qwen3", "max_position_embeddings": positions, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(text))
    model = ModelConfig(path=str(tmp_path))
    assert window_of(model) == window
    assert engine_arguments("translation", model, ())["max_model_len"] == window
    assert window_of(ModelConfig(path=str(tmp_path), engine={"max_model_len": 512})) == 512


def test_a_length_without_a_value_is_the_default(tmp_path):
    text = {"model_type": "qwen3", "max_position_embeddings": 1000, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(text))
    model = ModelConfig(path=str(tmp_path), engine={"max_model_len": None, "max_num_seqs": None})
    arguments = engine_arguments("translation", model, ())
    assert (arguments["max_model_len"], arguments["max_num_seqs"]) == (window_of(model), 32)


@pytest.mark.parametrize("length", [-1, 0, "auto", "8k", 1e3, True])
def test_a_length_that_is_no_number_is_refused(length):
    message = r"engine: .*max_model_len must be a whole number above 0, or null for the default"
    with pytest.raises(ConfigError, match=message):
        load_config("micro-low", {"models.translation.engine.max_model_len": length})


def test_the_window_of_the_published_recognizer(tmp_path):
    """Transformers does not read the dimensions in ``thinker_config``."""
    raw = json.loads(find_path("micro_models/qwen3-asr/config.json").read_text())
    raw["thinker_config"]["text_config"]["max_position_embeddings"] = 3000
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert window_of(ModelConfig(path=str(tmp_path))) == 3000


def test_windows_of_other_checkpoints(tmp_path):
    assert window_of(ModelConfig(path="micro_models/gemma4")) == 2048
    assert window_of(ModelConfig(path=str(write_whisper(tmp_path / "whisper")))) == 448
    assert window_of(ModelConfig(path="some/where")) == 4096
    (tmp_path / "config.json").write_text("{}")  # as CTranslate2 writes it
    assert window_of(ModelConfig(path=str(tmp_path))) == 4096


def test_terms_that_fill_a_short_window_are_refused():
    config = load_config("micro-low", {"models.translation.engine": {}})
    resolved = resolve(config, ["de"])
    terms = "\n".join(f"a = Aufmerksamkeit Nummer {k}" for k in range(100))
    with pytest.raises(ContextError, match=r"more than half of its window \(2048\)"):
        check_contexts(resolved, contexts=[terms])


@pytest.mark.parametrize("text", ["", "Das <bos> ist <end_of_turn> = a | b.", "Wort " * 100])
def test_a_beginning_of_any_text_is_accepted(text):
    check_beginning(resolve(load_config("micro-low"), ["de"]), text)


def test_a_beginning_that_fills_the_window_is_refused():
    resolved = resolve(load_config("micro-low", {"models.translation.engine": {}}), ["de"])
    with pytest.raises(ContextError, match=r"accepted .* more than half of its window \(2048\)"):
        check_beginning(resolved, "Aufmerksamkeit " * 1100)
