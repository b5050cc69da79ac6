"""Whisper on CTranslate2: a random checkpoint of the published files, converted by its own tool."""

import ctranslate2
import numpy as np
import pytest

from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, locate_one
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.speech import whisper_cpu
from alignatt_agent.speech.whisper_cpu import CpuWhisper
from lab.stand_ins.speech import write_whisper

AUDIO = np.random.default_rng(0).normal(0, 0.05, 48_000).astype(np.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    original, folder = (tmp_path_factory.mktemp("whisper") / name for name in ("hf", "ct2"))
    write_whisper(original, seed=3)
    convert = ctranslate2.converters.TransformersConverter
    convert(str(original), copy_files=["tokenizer.json"]).convert(str(folder))
    return folder


class Scripted:
    """A model whose pieces of audio are answered in turn: ids, probability of no speech, score."""

    n_mels = 80

    def __init__(self, tokenizer, *answers):
        self.tokenizer, self.answers, self.frames = tokenizer, list(answers), []

    def encode(self, features):
        self.frames.append(features.shape[-1])
        return features

    def generate(self, encoded, prompts, max_length, **options):
        text, no_speech, score = self.answers.pop(0)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        result = type("Result", (), {})()
        result.sequences_ids = [ids[: max_length - len(prompts[0])]]
        result.no_speech_prob, result.scores = no_speech, [score]
        return [result]

    def align(self, encoded, sequence, texts, frames):
        """Every token takes 0.2 s, and the transcript ends with the last one."""
        found = type("Found", (), {})()
        found.alignments = [(k, 10 * k) for k in range(len(texts[0]) + 1)]
        return [found]


def scripted(checkpoint, monkeypatch, *answers):
    recognizer = CpuWhisper(str(checkpoint), intra_threads=1)
    recognizer._model = model = Scripted(recognizer._tokenizer, *answers)
    return recognizer, model


def test_a_published_checkpoint_is_found_transcribes_and_times_its_words(checkpoint):
    model = ModelConfig(path=str(checkpoint), runtime="ctranslate2")
    recognizer = CpuWhisper(str(locate_one(model)), intra_threads=1)
    heard = recognizer.transcribe(AUDIO, "en", context="AlignAtt")
    items = recognizer.align(AUDIO, heard.text, "en")
    assert heard.text.split() == [item.text for item in items]
    assert all(0 <= item.start <= item.end <= 3.02 for item in items)
    assert recognizer.transcribe(AUDIO[:1000], "en").text == ""
    (checkpoint / "tokenizer.json").rename(checkpoint / "kept")
    with pytest.raises(CheckpointError, match=r"incomplete, it lacks tokenizer\.json"):
        locate_one(model)
    (checkpoint / "kept").rename(checkpoint / "tokenizer.json")


def test_a_loop_is_transcribed_again_in_thirty_seconds(checkpoint, monkeypatch):
    loop, said = ("so it goes " * 30, 0.0, -0.1), (" So it goes.", 0.0, -0.1)
    recognizer, model = scripted(checkpoint, monkeypatch, loop, said)
    assert recognizer.transcribe(AUDIO, "en").text == "So it goes."
    assert [frames / 100 for frames in model.frames] == [3 + whisper_cpu.PADDED_S, 30]
    recognizer, model = scripted(checkpoint, monkeypatch, loop, loop)
    assert recognizer.transcribe(AUDIO, "en").text == "so it goes"


def test_what_is_no_speech_is_left_out(checkpoint, monkeypatch):
    answers = [(" Thank you.", 0.7, -1.2), (" Thank you.", 0.7, -0.2), (" Thank you.", 0.2, -1.2)]
    recognizer, _ = scripted(checkpoint, monkeypatch, *answers)
    heard = [recognizer.transcribe(AUDIO, "en").text for _ in answers]
    assert heard == ["", "Thank you.", "Thank you."]


def test_a_word_ends_before_its_mark_which_has_the_pause(checkpoint, monkeypatch):
    recognizer, _ = scripted(checkpoint, monkeypatch, (" a b. c", 0.0, -0.1))
    tokens = recognizer._tokenizer.encode(" a b. c", add_special_tokens=False)
    pieces = [recognizer._tokenizer.decode([token]) for token in tokens]
    heard = recognizer.transcribe(AUDIO, "en")
    a, b, c = recognizer.align(AUDIO, heard.text, "en")
    end = 0.2 * (pieces.index(".") if "." in pieces else 0)
    assert (a.text, b.text, c.text) == ("a", "b.", "c")
    assert b.end == pytest.approx(end)
    assert c.end == pytest.approx(0.2 * len(pieces))


def test_its_words_need_no_aligner():
    config = load_config("laptop-low")
    assert config.models.engine_roles == ("translation",)
    assert Resolved(config, {}, config.models).aligned(language("cs"))
    with pytest.raises(ConfigError, match="ctranslate2 is for speech.recognizer whisper"):
        load_config("laptop-low", {"speech.recognizer": "qwen3-asr"})
    with pytest.raises(ConfigError, match="vLLM reads no GGUF file on a CPU: set quantize"):
        load_config("laptop-low", {"models.translation.quantize": None})
