"""The agent fulfills Simulstream's contract."""

import numpy as np
import pytest
from simulstream.server.message_processor import MessageProcessor

from alignatt_agent.agent import _output
from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import LanguageError, language
from alignatt_agent.types import EngineError
from tests.fakes.agent import FakeAgent, loaded_agent, talk, translated, word

CHUNK = 13_600


def pieces(samples, size=CHUNK):
    return [samples[i : i + size] for i in range(0, len(samples), size)]


def outputs(agent, samples):
    """Return all outputs of a stream whose languages are set."""
    found = [*map(agent.process_chunk, pieces(samples)), agent.end_of_stream()]
    agent.clear()
    return found


def joined(outputs):
    return [token for output in outputs for token in output.new_tokens]


def heard(agent, samples):
    return joined(outputs(agent, samples))


def stream(agent, samples, target="de", source="en"):
    """Run one stream as MessageProcessor does; return all tokens."""
    agent.set_target_language(target)
    agent.set_source_language(source)
    return heard(agent, samples)


def expected(words, chinese=False):
    units = [translated(word(k), chinese) for k in range(words)]
    return list("".join(units)) if chinese else units


@pytest.mark.parametrize(
    ("chinese", "names"),
    [(False, "de German german DE de-DE"), (True, "zh Chinese Simplified_Chinese")],
)
def test_codes_and_names(agent, chinese, names):
    for name in names.split():
        assert stream(agent, talk(20), name.replace("_", " ")) == expected(20, chinese)


def test_clear_twice_and_between_streams_and_the_clients_language_goes(agent):
    once = stream(agent, talk(10))
    agent.clear()
    agent.clear()
    assert stream(agent, talk(10)) == once == expected(10)
    with pytest.raises(ConfigError, match="no target language"):
        agent.process_chunk(talk(4))


def test_configured_language_survives_clear(tmp_path):
    agent = loaded_agent(tmp_path, target_language="German")
    for _ in range(2):
        assert heard(agent, talk(10)) == expected(10)


def test_read_only_input_stays_untouched_and_may_end_with_one_sample(agent):
    samples = talk(17, extra_samples=(1 - 17 * 8000) % CHUNK)
    samples.flags.writeable = False
    before = samples.copy()
    assert stream(agent, samples) == expected(17)
    assert np.array_equal(samples, before)


def test_the_harness_may_reuse_its_buffer_and_change_the_lists_it_gets(agent):
    agent.set_target_language("de")
    buffer = np.zeros(CHUNK, np.float32)
    tokens = []
    for piece in pieces(talk(17)):
        buffer[: len(piece)] = piece
        output = agent.process_chunk(buffer[: len(piece)])
        assert output.deleted_tokens == []
        assert output.deleted_string == ""
        tokens += output.new_tokens
        output.new_tokens.append("the harness changes its list")
        output.deleted_tokens.append("and this one")
    assert tokens + agent.end_of_stream().new_tokens == expected(17)


def test_strings_and_tokens_agree(agent):
    for target, joiner in (("de", " "), ("zh", "")):
        agent.set_target_language(target)
        found = [*map(agent.process_chunk, pieces(talk(16))), agent.end_of_stream()]
        assert "".join(o.new_string for o in found).strip() == joiner.join(joined(found))
        assert all(o.new_string == agent.tokens_to_string(o.new_tokens) for o in found)
        agent.clear()


def test_tokens_are_words_or_characters_without_white_space():
    units = (" a b", "c\u00a0d", "\u3000e", "fg\t")
    for target, tokens in (("de", "a b c d e fg"), ("zh", "a b c d e f g")):
        assert _output(units, language(target)).new_tokens == tokens.split()


@pytest.mark.parametrize("chunks", [[], [0], [1], [16_000] * 40])
def test_silence_and_next_to_no_audio_emit_nothing(agent, chunks):
    agent.set_target_language("de")
    for samples in chunks:
        assert agent.process_chunk(np.zeros(samples, np.float32)).new_tokens == []
    assert agent.end_of_stream().new_tokens == []


@pytest.mark.parametrize(
    ("samples", "shape"),
    [
        (np.zeros((20_000, 2), np.float32), r"\[20000, 2\] of float32"),
        (np.zeros((2, 20_000), np.float32), r"\[2, 20000\] of float32"),
        (np.zeros(20_000, np.int16), r"\[20000\] of int16"),
    ],
)
def test_other_arrays_are_refused_and_the_stream_goes_on(agent, samples, shape):
    agent.set_target_language("de")
    wanted = r"expected mono audio as floating-point samples of shape \[samples\]"
    with pytest.raises(ValueError, match=f"{wanted} .* got shape {shape}"):
        agent.process_chunk(samples)
    assert heard(agent, talk(8)) == expected(8)


@pytest.mark.parametrize(
    ("side", "name", "message"),
    [
        ("target", "Klingon", r"'Klingon'.*de \(German\)"),
        ("source", "uk", "not among the languages"),
    ],
)
def test_languages_that_cannot_be_are_refused_and_never_replaced(
    agent, config, side, name, message
):
    agent.set_target_language("de")
    with pytest.raises(LanguageError, match=message):
        getattr(agent, f"set_{side}_language")(name)
    # the WebSocket server only logs this error and continues
    why = f"no {side} language, because the client's choice was refused: .*{message}"
    with pytest.raises(ConfigError, match=why):
        agent.process_chunk(talk(4))
    getattr(agent, f"set_{side}_language")("German" if side == "target" else "English")
    assert heard(agent, talk(8)) == expected(8)
    setattr(config, f"{side}_language", name)
    with pytest.raises((LanguageError, ConfigError), match=message):
        FakeAgent.load_model(config)


def test_direction_without_head_set(agent):
    agent.set_target_language("it")
    with pytest.raises(HeadSetError, match=r"no head set for en-it.*de, zh"):
        agent.process_chunk(talk(4))
    agent.clear()
    agent.set_target_language("de")
    agent.set_source_language("fr")
    with pytest.raises(HeadSetError, match=r"direction en-de, not for fr-de"):
        agent.process_chunk(talk(4))


def test_into_english_without_a_gate(tmp_path):
    policy = {"name": "local_agreement", "drafts": 2}
    agent = loaded_agent(tmp_path, head_sets={}, policy=policy)
    for spoken in ("de", "Cantonese", "Czech"):
        assert stream(agent, talk(12), "English", spoken) == expected(12)


def test_engine_error_in_mid_stream_keeps_what_was_emitted(agent, fake_engines, caplog):
    samples = pieces(talk(24, extra_samples=7))
    agent.set_target_language("de")
    tokens = [t for piece in samples[:6] for t in agent.process_chunk(piece).new_tokens]
    assert tokens
    fake_engines.translation.fail = True
    with pytest.raises(EngineError, match="out of memory"):
        for piece in samples[6:-1]:
            tokens += agent.process_chunk(piece).new_tokens
    assert "out of memory" in caplog.text
    assert FakeAgent.runtime.failures
    agent.clear()
    fake_engines.translation.fail = False
    assert stream(agent, talk(8)) == expected(8)


def test_error_in_the_last_chunk_never_hangs_a_client(agent, fake_engines, caplog):
    processor = MessageProcessor(0, agent)
    processor.process_metadata({"target_lang": "de", "source_lang": "en"})
    pcm = np.round(talk(12, extra_samples=7) * 32768).astype("<i2")
    tokens = []
    for piece in pieces(pcm):
        output = processor.process_speech(piece.tobytes())
        tokens += output.new_tokens if output else []
    emitted = len(tokens)
    fake_engines.translation.fail = True
    processor.end_of_stream()
    assert "out of memory" in caplog.text
    assert len(FakeAgent.runtime.failures) >= 1
    assert tokens == expected(12)[:emitted]


def test_a_dead_engine_is_started_again_by_load_model(runtime_of_agents, config):
    FakeAgent.load_model(config)
    FakeAgent.load_model(config)
    assert runtime_of_agents.started == [("qwen3-asr", True)]
    runtime_of_agents.dead = True
    FakeAgent.load_model(config)
    assert runtime_of_agents.started[1:] == [("qwen3-asr", False)]  # a stream waits


def test_another_recognizer_on_the_same_checkpoints_is_another_key(agent, tmp_path):
    loaded_agent(tmp_path, speech={"recognizer": "whisper", "hold_back_ms": 0})
    assert agent.runtime.started == [("qwen3-asr", True), ("whisper", True)]
    agent.set_target_language("de")
    with pytest.raises(EngineError, match=r"not loaded: .* call it with"):
        agent.process_chunk(talk(8))
