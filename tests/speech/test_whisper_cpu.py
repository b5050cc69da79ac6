"""Whisper on CTranslate2: a random checkpoint of the published files, converted by its own tool."""

from types import SimpleNamespace

import ctranslate2
import numpy as np
import pytest

from alignatt_agent.cascade.engines import serve_speech
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, locate_one
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import cpu_whisper
from alignatt_agent.engine.cpu_whisper import CpuWhisper
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
    """A model with prepared answers: a text, and the probability that it is not speech."""

    n_mels = 80

    def __init__(self, tokenizer, *answers):
        self.tokenizer, self.answers, self.frames = tokenizer, list(answers), []

    def encode(self, features):
        self.frames.append(features.shape[-1])
        return features

    def generate(self, encoded, prompts, max_length, **options):
        text, no_speech, *score = self.answers.pop(0)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ids = ids[: max_length - len(prompts[0])]
        scores = score or [-1.1]
        return [SimpleNamespace(sequences_ids=[ids], no_speech_prob=no_speech, scores=scores)]

    def align(self, encoded, sequence, texts, frames):
        """Every token takes 0.2 s, and the transcript ends with the last one."""
        return [SimpleNamespace(alignments=[(k, 10 * k) for k in range(len(texts[0]) + 1)])]


def opened(checkpoint, *answers):
    """Return a recognizer, its aligner and their model, which is scripted if there are answers."""
    whisper = CpuWhisper(str(checkpoint), intra_threads=1)
    if answers:
        whisper._model = Scripted(whisper.tokenizer, *answers)
    return *serve_speech("whisper", whisper), whisper


def test_a_published_checkpoint_is_found_transcribes_and_times_its_words(checkpoint):
    model = ModelConfig(path=str(checkpoint), runtime="ctranslate2")
    recognizer, aligner, whisper = opened(locate_one(model))
    ids = recognizer._prompt.ids("English", "AlignAtt")
    answer = whisper.generate(ids, AUDIO, 12)
    text = whisper.tokenizer.decode(answer.token_ids, skip_special_tokens=True)
    items = aligner.align(AUDIO, "the model reads", "en")
    assert isinstance(text, str)
    assert [item.text for item in items] == ["the", "model", "reads"]
    assert all(0 <= item.start <= 3.02 and 0 <= item.end <= 3.02 for item in items)
    assert aligner.align(AUDIO, "", "en") == []
    assert recognizer.transcribe(AUDIO[:1000], "en").text == ""
    (checkpoint / "tokenizer.json").rename(checkpoint / "kept")
    with pytest.raises(CheckpointError, match=r"incomplete \(missing: tokenizer\.json"):
        locate_one(model)
    (checkpoint / "kept").rename(checkpoint / "tokenizer.json")


def test_a_loop_is_transcribed_again_in_thirty_seconds(checkpoint):
    loop, said = ("so it goes " * 30, 0.0), (" So it goes.", 0.0)
    recognizer, _, whisper = opened(checkpoint, loop, said)
    assert recognizer.transcribe(AUDIO, "en").text == "So it goes."
    assert [frames / 100 for frames in whisper._model.frames] == [3 + cpu_whisper.PADDED_S, 30]


def test_what_is_no_speech_is_left_out(checkpoint):
    """In a hall, the no-speech token was likely in speech; the words were, too."""
    said = [(" Thank you.", 0.7), (" Thank you.", 0.7, -0.6), (" Thank you.", 0.2), (" [X]", 0.2)]
    recognizer, *_ = opened(checkpoint, *said)
    heard = [recognizer.transcribe(AUDIO, "en").text for _ in range(4)]
    assert heard == ["", "Thank you.", "Thank you.", ""]


def test_a_word_ends_before_its_mark_which_has_the_pause(checkpoint):
    recognizer, aligner, whisper = opened(checkpoint, (" a b. c", 0.0))
    tokens = whisper.tokenizer.encode(" a b. c", add_special_tokens=False)
    pieces = [whisper.tokenizer.decode([token]) for token in tokens]
    text = recognizer.transcribe(AUDIO, "en").text
    a, b, c = aligner.align(AUDIO, text, "en")
    assert (a.text, b.text, c.text) == ("a", "b.", "c")
    assert b.end == pytest.approx(0.2 * pieces.index("."))
    assert c.end == pytest.approx(0.2 * len(pieces))


def test_its_words_need_no_aligner():
    config = load_config("laptop-low")
    assert config.models.engine_roles == ("translation",)
    assert Resolved(config, {}, config.models).aligned(language("cs"))
    with pytest.raises(ConfigError, match="ctranslate2 needs speech.recognizer whisper"):
        load_config("laptop-low", {"speech.recognizer": "qwen3-asr"})
    with pytest.raises(ConfigError, match="vLLM cannot read GGUF files on a CPU: set quantize"):
        load_config("laptop-low", {"models.translation.quantize": None})
