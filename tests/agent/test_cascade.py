"""One cache of engines: the agent asks it every time."""

from types import SimpleNamespace

import pytest
from simulstream.config import yaml_config

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade import loading
from alignatt_agent.types import EngineError
from tests.fakes.agent import FakeEngines, talk, write_config


@pytest.fixture
def pool(monkeypatch):
    """An engine pool without models; ``asked`` counts how often engines were asked of it."""
    fakes = FakeEngines()
    text = SimpleNamespace(num_hidden_layers=fakes.num_layers, num_attention_heads=fakes.num_heads)
    served = SimpleNamespace(
        config=SimpleNamespace(hf_text_config=text, max_model_len=4096),
        tokenizer=lambda: fakes.tokenizer,
        cache_tokens=4096,
    )
    state = SimpleNamespace(asked=0, alive=True, recognizers=[], warmed=[])

    def pooled(checkpoints, heads):
        state.asked, state.alive = state.asked + 1, True
        return dict.fromkeys(("asr", "aligner", "translation"), served)

    def serve_recognizer(family, model):
        state.recognizers.append(family)
        return fakes.asr

    monkeypatch.setattr(loading.pool, "pooled", pooled)
    monkeypatch.setattr(loading.pool, "all_alive", lambda: state.alive)
    monkeypatch.setattr(loading, "DraftEngine", lambda *_: fakes.translation)
    monkeypatch.setattr(loading, "serve_recognizer", serve_recognizer)
    monkeypatch.setattr(loading, "TimingModel", lambda model: model)
    monkeypatch.setattr(loading, "_warm_up", lambda *_: state.warmed.append(state.asked))
    monkeypatch.setattr(loading, "_assembled", None)
    monkeypatch.setattr("alignatt_agent.agent.check_requests", lambda _: None)
    return state


def written(folder, **changes):
    return yaml_config(str(write_config(folder, **changes)))


def test_a_dead_engine_is_started_again_by_load_model(pool, tmp_path):
    config = written(tmp_path)
    AlignAttAgent.load_model(config)
    AlignAttAgent.load_model(config)
    assert pool.asked == 1
    pool.alive = False
    AlignAttAgent.load_model(config)
    assert (pool.asked, pool.warmed) == (2, [1])


def test_another_recognizer_on_the_same_checkpoints_is_another_key(pool, tmp_path):
    config = written(tmp_path)
    whisper = written(tmp_path, speech={"recognizer": "whisper", "hold_back_ms": 0})
    AlignAttAgent.load_model(config)
    AlignAttAgent.load_model(whisper)
    assert pool.recognizers == ["qwen3-asr", "whisper"]
    agent = AlignAttAgent(config)
    agent.set_target_language("de")
    with pytest.raises(EngineError, match=r"not loaded: .* call it again"):
        agent.process_chunk(talk(8))
