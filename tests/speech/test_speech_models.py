"""Prompts and decoding of the recognizer and the aligner, without an engine."""

import json
import shutil

import numpy as np
import pytest
from transformers.models.qwen3_asr import Qwen3ASRProcessor

from alignatt_agent.config.languages import LanguageError
from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.front_ends import front_end_prompt
from alignatt_agent.speech.prompt import (
    ChatTemplateError,
    ContextError,
    RecognitionPrompt,
    longest_answer,
)
from alignatt_agent.speech.recognizer import PromptedRecognizer
from alignatt_agent.types import Transcript
from lab.stand_ins import speech as published_speech
from tests.fakes.speech import SpeechModel

SECOND = np.zeros(16_000, dtype=np.float32)
CONTEXTS = ["", "AlignAtt", "vLLM, Qwen3\nJoão  da Silva\n\tBLEU", "注意力, العربية, 語"]
AUDIO = "<|audio_start|><|audio_pad|><|audio_end|>"
ENGLISH = "<|im_start|>assistant\nlanguage English<asr_text>"
ASKED = f"<|im_start|>system\n{{}}<|im_end|>\n<|im_start|>user\n{AUDIO}<|im_end|>\n{ENGLISH}"


def recognize(model):
    return PromptedRecognizer(model, RecognitionPrompt(model.processor, model.tokenizer, "m"))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return published_speech.write("asr", tmp_path_factory.mktemp("published") / "asr")


@pytest.fixture(scope="module")
def processor(published):
    return Qwen3ASRProcessor.from_pretrained(published)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_prompt_is_what_the_checkpoints_template_gives(processor, context):
    turns = [
        {"role": "system", "content": [{"type": "text", "text": context}]},
        {"role": "user", "content": [{"type": "audio", "audio": SECOND}]},
    ]
    theirs = processor.apply_chat_template(
        turns, tokenize=True, return_dict=True, add_generation_prompt=True
    )["input_ids"][0].tolist()
    forced = processor.tokenizer.encode("language French<asr_text>", add_special_tokens=False)
    ours = RecognitionPrompt(processor, processor.tokenizer, "m").ids("French", context)
    audio = processor.audio_token_id
    once = [x for k, x in enumerate(theirs) if x != audio or theirs[k - 1] != audio]
    assert list(ours) == once + forced


def test_the_published_template_has_a_system_turn_even_when_it_is_empty(processor):
    model = SpeechModel(processor, " 我们 go on. ")
    recognizer = recognize(model)
    for context in ("", "AlignAtt, vLLM"):
        found = recognizer.transcribe(np.tile(SECOND, 4), "en", context, "我们 go")
        assert found == Transcript("我们 go on.", 3, 2)
        prompt, samples, limit = model.asked[-1]
        assert (prompt, samples) == (ASKED.format(context), 64_000)
        assert model.expected == "我们 go"
        assert 24 < limit < 100


def test_the_embedded_model_is_asked_as_it_was_trained():
    processor = Qwen3ASRProcessor.from_pretrained(CHECKOUT_ROOT / "micro_models/qwen3-asr")
    ids = RecognitionPrompt(processor, processor.tokenizer, "micro").ids("English")
    assert list(ids) == processor.tokenizer.encode(ASKED.format(""), add_special_tokens=False)


def with_template(published, tmp_path, template):
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "chat_template.json"
    path.unlink()
    if template is not None:
        path.write_text(json.dumps({"chat_template": template}))
    return front_end_prompt("qwen3-asr", str(tmp_path), 4096)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "there is no chat template"),
        ("{{ messages[0]['content'] }}", r"writes <\|audio_pad\|> 0 times for one recording"),
        ("{{ messages[0]['content'] + 1 }}", "no|rejects the turns user"),
        ("{{ raise_exception('no audio') }}", "rejects the turns user: no audio; choose another"),
    ],
)
def test_a_template_that_cannot_ask_at_all(published, tmp_path, template, message):
    with pytest.raises(ChatTemplateError, match=message):
        with_template(published, tmp_path, template)


USER = "{{ '<|im_start|>user\n<|audio_pad|><|im_end|>\n' }}"


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("raise_exception('not supported')", "the turns system, user: not supported; leave"),
        ("''", "omits the system turn 'Align Att'; leave speech.context empty"),
    ],
)
def test_a_template_without_a_place_for_the_context(published, tmp_path, system, message):
    template = f"{{% if messages[0].role == 'system' %}}{{{{ {system} }}}}{{% endif %}}{USER}"
    prompt = with_template(published, tmp_path, template)
    assert prompt.ids("English")
    with pytest.raises(ChatTemplateError, match=rf"{tmp_path}.*{message}"):
        prompt.ids("English", "Align Att")


def test_a_context_that_the_recognizer_cannot_take(processor):
    prompt = RecognitionPrompt(processor, processor.tokenizer, "asr model fake")
    prompt.check_context("注意力 " * 20, 4096, 45, "en")
    with pytest.raises(ContextError) as caught:
        prompt.check_context("attention " * 2000, 4096, 45, "en")
    assert "tokens long for asr model fake; with 45 s of audio" in str(caught.value)
    assert "the window of 4096 tokens has 2770 left: shorten it" in str(caught.value)
    with pytest.raises(ContextError, match=r"contains '<\|im_end\|>', a control token of asr"):
        prompt.ids("English", "a<|im_end|>")


def test_short_audio_is_padded_and_shorter_audio_never_reaches_an_engine(processor):
    model = SpeechModel(processor, "")
    recognizer, aligner = recognize(model), QwenAligner(model)
    for samples in (0, 1, 1599):
        assert recognizer.transcribe(SECOND[:samples], "en").text == ""
        assert aligner.align(SECOND[:samples], "hello", "en") == []
    assert aligner.align(SECOND, " , . ", "en") == []
    assert model.asked == []
    recognizer.transcribe(SECOND[:2000], "en")
    assert model.asked[0][1] == 8000


@pytest.mark.parametrize(("code", "per_letter"), [("en", 0.2), ("el", 0.87), ("hi", 0.94)])
def test_the_bound_of_a_transcript_fits_the_script(code, per_letter):
    """Tokens for a letter as of Qwen's tokenizer; fast speech has 25 letters per second."""

    class Tokenizer:
        def encode(self, text, add_special_tokens):
            return [0] * round(per_letter * len(text))

    assert 25 * per_letter < longest_answer(30, Tokenizer(), code) / 30 < 50 * per_letter + 4


def test_languages_that_cannot_be_heard_are_named(processor):
    recognizer = recognize(SpeechModel(processor, ""))
    with pytest.raises(LanguageError, match="Ukrainian can be a target language, but it is not"):
        recognizer.transcribe(SECOND, "uk")
    assert recognizer.transcribe(SECOND, "da").text == ""


@pytest.mark.parametrize(
    ("bins", "times"),
    [
        ([1, 3, 4, 400], (0.08, 0.24, 0.32, 32.0)),  # past the audio
        ([3, 1, 2, 9], (0.08, 0.08, 0.16, 0.72)),  # times that fall are repaired as Qwen does
        ([1, 90, 80, 70], (0.08, 7.2, 7.2, 7.2)),
    ],
)
def test_align_gives_times_in_order(processor, bins, times):
    model = SpeechModel(processor, bins)
    well, it = QwenAligner(model).align(np.tile(SECOND, 2), "Well, it's…", "en")
    assert (well.text, it.text) == ("Well", "it's")
    assert (well.start, well.end, it.start, it.end) == times
    assert model.asked[0][0] == (f"{AUDIO}Well<timestamp><timestamp>it's<timestamp><timestamp>")
