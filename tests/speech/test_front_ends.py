"""Requests to recognizers other than Qwen3-ASR; lab/tests/test_published.py serves them."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.config.languages import LanguageError
from alignatt_agent.engine import start
from alignatt_agent.engine.arguments import engine_arguments
from alignatt_agent.engine.speech_models import EncoderDecoderModel
from alignatt_agent.speech import front_ends
from alignatt_agent.speech.front_ends import LONGEST_S, WhisperPrompt, front_end_prompt
from alignatt_agent.speech.prompt import ChatTemplateError, ContextError
from alignatt_agent.speech.recognizer import PromptedRecognizer, pieces
from alignatt_agent.types import Transcript
from lab.stand_ins.layouts import write
from lab.stand_ins.speech import whisper_tokenizer, write_whisper
from tests.fakes.speech import SpeechModel

SECOND = np.zeros(16_000, dtype=np.float32)


@pytest.fixture(scope="module")
def whisper():
    return whisper_tokenizer()


def whisper_recognizer(tokenizer, *answers, ended=True):
    model = SpeechModel(tokenizer, *answers, ended=ended)
    return model, PromptedRecognizer(model, WhisperPrompt(tokenizer, model.name), LONGEST_S)


def test_whispers_language_is_forced(whisper):
    model, recognizer = whisper_recognizer(whisper, " Hello there. ", " Guten Tag.")
    assert recognizer.transcribe(np.tile(SECOND, 4), "en").text == "Hello there."
    assert recognizer.transcribe(SECOND, "German").text == "Guten Tag."
    prompts = [prompt for prompt, *_ in model.asked]
    assert prompts == [
        f"<|startoftranscript|><|{code}|><|transcribe|><|notimestamps|>" for code in ("en", "de")
    ]
    with pytest.raises(LanguageError, match="asr model fake has no token for Ukrainian"):
        recognizer.transcribe(SECOND, "uk")


def test_whispers_of_other_vocabularies(whisper, monkeypatch):
    """Filipino is Tagalog to Whisper; an English-only checkpoint has no language tokens."""
    named = copy.deepcopy(whisper)
    named.add_special_tokens({"extra_special_tokens": ["<|tl|>"]}, False)
    assert "<|tl|><|transcribe|>" in named.decode(WhisperPrompt(named, "").ids("Filipino"))
    monkeypatch.setattr(front_ends, "_ENGLISH_ONLY", whisper.eos_token_id)
    english = WhisperPrompt(whisper, "tiny.en")
    assert whisper.decode(english.ids("English")) == "<|startoftranscript|><|notimestamps|>"
    with pytest.raises(LanguageError, match="tiny.en recognizes only English, not German"):
        english.ids("German")


@pytest.mark.parametrize(
    ("no_speech", "words", "heard"), [(0.7, -1.1, ""), (0.7, -0.6, "you"), (0.5, -1.1, "you")]
)
def test_whisper_says_that_nobody_speaks(whisper, no_speech, words, heard):
    """The no-speech token behind the start is among the log-probabilities of the prompt."""
    you, silent = (whisper.encode(t, add_special_tokens=False) for t in (" you", "<|nospeech|>"))

    def generate(request, sampling):
        ids = request["decoder_prompt"]["prompt_token_ids"]
        places = [None, *({token: SimpleNamespace(logprob=-3.0)} for token in ids[1:])]
        first = ids.index(whisper.convert_tokens_to_ids("<|startoftranscript|>")) + 1
        places[first][silent[0]] = SimpleNamespace(logprob=math.log(no_speech))
        said = SimpleNamespace(
            token_ids=you, finish_reason="stop", cumulative_logprob=words * (len(you) + 1)
        )
        assert sampling.logprobs == 0
        return SimpleNamespace(outputs=[said], prompt_logprobs=places[:: sampling.prompt_logprobs])

    config = SimpleNamespace(try_get_generation_config=dict)
    served = SimpleNamespace(name="m", tokenizer=lambda: whisper, config=config, generate=generate)
    served.take_decoder_prompts_whole = lambda: None
    recognizer = PromptedRecognizer(
        EncoderDecoderModel(served), WhisperPrompt(whisper, "m"), LONGEST_S
    )
    assert recognizer.transcribe(SECOND, "en", "AlignAtt").text == heard


def test_whispers_engine_takes_30_seconds_at_once(tmp_path):
    path = str(write_whisper(tmp_path / "whisper"))
    for streams, batched in ((1, 1500), (8, None)):
        engine = {"max_num_seqs": streams, "max_model_len": 448}
        found = engine_arguments("asr", ModelConfig(path=path, engine=engine), ())
        assert found.get("max_num_batched_tokens") == batched


def test_whisper_is_told_names_as_what_was_said_before(whisper):
    model, recognizer = whisper_recognizer(whisper, "a")
    recognizer.transcribe(SECOND, "en", "AlignAtt\nvLLM")
    (prompt, _, longest), *_ = model.asked
    assert prompt.startswith("<|startofprev|> AlignAtt, vLLM<|startoftranscript|>")
    assert longest < 448
    asked = WhisperPrompt(whisper, "whisper")
    with pytest.raises(ContextError, match="which accepts at most 223: shorten"):
        asked.check_context("attention " * 300, 4096, 30, "en")
    with pytest.raises(ContextError, match="a control token of whisper"):
        asked.check_context("a<|notimestamps|>", 4096, 30, "en")


def test_long_audio_is_cut_where_it_is_quiet(whisper):
    audio = np.random.default_rng(0).normal(0, 0.05, 70 * 16_000).astype(np.float32)
    quiet = round(28.5 * 16_000)
    audio[quiet - 800 : quiet + 800] = 0
    parts = list(pieces(audio, LONGEST_S))
    assert abs(len(parts[0]) - quiet) < 800
    assert all(len(part) <= 30 * 16_000 for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), audio)
    model, recognizer = whisper_recognizer(whisper, " one", "", " two ")
    assert recognizer.transcribe(audio, "en") == Transcript("one two", 9, 6)
    assert sum(samples for _, samples, _ in model.asked) == len(audio)
    assert [len(part) for part in pieces(SECOND, LONGEST_S)] == [16_000]


@pytest.mark.parametrize(
    ("said", "ended", "heard"),
    [
        ("and so on", False, None),
        ("well " + "the " * 30 + "end", True, "well the end"),
        ("no" + "o" * 40 + "!", True, "no!"),
        ("我" + "们的" * 25, True, "我们的"),
        ("So. " + "Thank you. " * 19 + "Bye.", True, "So. Thank you. Bye."),
        ("[BLANK_AUDIO]", True, ""),
        ("(beeping) " * 30, False, ""),
        ("\u266a So (applause) \uff08\u62cd\u624b\uff09 *coughs* it is.", True, "So    it is."),
    ],
)
def test_what_is_not_believed_or_said_once_or_not_spoken(whisper, said, ended, heard):
    recognizer = whisper_recognizer(whisper, said, ended=ended)[1]
    assert recognizer.transcribe(SECOND, "en").text == heard


def test_checkpoints_that_cannot_ask(checkpoints):
    path = str(checkpoints / "gemma4")
    with pytest.raises(ChatTemplateError, match=r"no <\|startoftranscript\|>; expected a multil"):
        front_end_prompt("whisper", path, 448).ids("English")
    with pytest.raises(ChatTemplateError, match="the tokenizer has no token for audio"):
        front_end_prompt("gemma4-audio", path, 4096)


def test_one_checkpoint_one_engine(monkeypatch, checkpoints):
    """If the translation model also recognizes, there is no third engine; a superfluous one
    ends.
    """
    ended = []

    class Served:
        alive = True

        def __init__(self, title, arguments):
            self.title, self.arguments = title, arguments

        def shutdown(self):
            ended.append(self.title.split()[0])

    monkeypatch.setattr(start, "ServedModel", Served)
    served = start.ServedModels()
    model = ModelConfig(path=str(checkpoints / "gemma4"))
    asr, aligner = (ModelConfig(path=str(checkpoints / name)) for name in ("asr", "aligner"))
    apart = served.start(ModelsConfig(asr=asr, aligner=aligner, translation=model), ())
    assert len({id(served) for served in apart.values()}) == 3
    assert apart["translation"].arguments["language_model_only"]
    together = served.start(ModelsConfig(asr=model, aligner=aligner, translation=model), ())
    assert together["asr"] is together["translation"]
    assert together["aligner"] is apart["aligner"]
    assert sorted(ended) == ["asr", "translation"]
    heard = together["translation"].arguments
    assert not heard["language_model_only"]
    assert heard["limit_mm_per_prompt"] == {"audio": 1, "image": 0, "video": 0}


def test_what_gemma_is_asked(tmp_path):
    path = write("gemma4", tmp_path / "gemma-4")
    prompt = front_end_prompt("gemma4-audio", str(path), 4096)
    text = prompt._tokenizer.decode(prompt.ids("German", "AlignAtt\nvLLM"))
    assert text.startswith("<bos><|turn>user\nWrite down what is said, in German")
    assert "Names and terms that may occur: AlignAtt, vLLM." in text
    assert text.endswith("<|audio|><turn|>\n<|turn>model\n")
    assert prompt.room(prompt.ids("German")) < 4096 - 750
    prompt.check_context("vLLM", 4096, 30, "en")
    with pytest.raises(ContextError, match="with 30 s of audio"):
        prompt.check_context("attention " * 1500, 4096, 30, "en")
