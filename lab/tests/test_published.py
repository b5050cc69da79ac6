"""The published file layouts and classes, served as they are, with exact rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    Gemma4AudioFeatureExtractor,
    Gemma4ForConditionalGeneration,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

from alignatt_agent.cascade.engines import serve_speech
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.speech_models import AudioModel, EncoderDecoderModel
from alignatt_agent.engine.start import start_model
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.speech.front_ends import GemmaPrompt, WhisperPrompt
from alignatt_agent.types.engines import Readout
from lab.stand_ins import random_models
from lab.stand_ins.layouts import MEDIA, write
from lab.stand_ins.speech import write_whisper
from tests.engine.batches import Case, check_rows
from tests.fixtures.engines import HEADS, make_prompt

PREDICTING = Readout(HEADS, "predicting")


def noise(rng, seconds):
    return 0.05 * rng.standard_normal(round(16_000 * seconds)).astype(np.float32)


def test_gemma4_hears_and_translates_on_one_engine(tmp_path):
    path = write("gemma4", tmp_path)
    model = ModelConfig(path=str(path), dtype="float32")
    served = start_model("translation", model, HEADS, transcribes=True)
    try:
        assert served.config.architectures == ["Gemma4ForConditionalGeneration"]
        model, rng = AudioModel(served), np.random.default_rng(0)
        window = served.config.max_model_len
        ids = GemmaPrompt(model.tokenizer, model.name, window).ids("English", "AlignAtt")
        heard = []
        for seconds in (0.5, 3.1, 30.0):
            audio = noise(rng, seconds)
            heard.append((audio, model.generate(ids, audio, 8)))
        said = serve_speech("gemma4-audio", served)[0].transcribe(audio, "en").text
        media = model.tokenizer.convert_tokens_to_ids(list(MEDIA.values()))
        prompts = [text_only(make_prompt(seed, 90, 5, 40), media) for seed in range(4)]
        batch = [Case(prompt, 8, PREDICTING) for prompt in prompts]
        drafts = [case.run(DraftEngine(served, HEADS)) for case in batch]
    finally:
        served.shutdown()
    for audio, answer in heard:
        assert answer.token_ids
        assert list(answer.token_ids) == transcript_of_transformers(path, ids, audio)
    assert len({answer.token_ids for _, answer in heard}) > 1  # it listens
    assert said is None or isinstance(said, str)
    assert not {token for draft in drafts for token in draft.token_ids} & set(media)
    reference = TransformersEngine(str(path))
    for case, draft in zip(batch, drafts, strict=True):
        check_rows(reference, case, draft)


def transcript_of_transformers(path, ids, audio):
    """Greedy ids by the published class, with the placeholder spread by what its encoder gives."""
    model = Gemma4ForConditionalGeneration.from_pretrained(path).eval()
    found = Gemma4AudioFeatureExtractor()(
        [audio], sampling_rate=16_000, return_tensors="pt", padding="longest"
    )
    config = model.config
    count = int(found["input_features_mask"][:, ::2][:, ::2].sum())  # frames are halved twice
    at = list(ids).index(config.audio_token_id)
    spread = [config.boa_token_id, *[config.audio_token_id] * count, config.eoa_token_index]
    asked = torch.tensor([[*ids[:at], *spread, *ids[at + 1 :]]])
    with torch.inference_mode():
        answer = model.generate(asked, **found, max_new_tokens=8, do_sample=False)
    stops = model.generation_config.eos_token_id
    return [token for token in answer[0, asked.shape[1] :].tolist() if token not in stops]


def text_only(prompt, media):
    """The same prompt without placeholders of images and sound."""
    ids = tuple(6 if token in media else token for token in prompt.token_ids)
    return replace(prompt, token_ids=ids)


def test_whisper_on_vllm(tmp_path):
    """The transcript is what Transformers decodes greedily from the same prompt and audio."""
    path = write_whisper(tmp_path / "whisper", seed=3)
    served = start_model("asr", ModelConfig(path=str(path), dtype="float32"))
    try:
        model, audio = EncoderDecoderModel(served), noise(np.random.default_rng(0), 3)
        ids = WhisperPrompt(model.tokenizer, model.name).ids("English", "AlignAtt")
        answer = list(model.generate(ids, audio, 12).token_ids)
        recognizer, _ = serve_speech("whisper", served)
        text = recognizer.transcribe(audio, "en").text
    finally:
        served.shutdown()
    processor = WhisperProcessor.from_pretrained(path)
    reference = WhisperForConditionalGeneration.from_pretrained(path).eval()
    features = processor(audio=audio, sampling_rate=16_000, return_tensors="pt").input_features
    expected = list(ids)
    with torch.inference_mode():
        for _ in range(12):
            logits = reference(features, decoder_input_ids=torch.tensor([expected])).logits
            expected.append(int(logits[0, -1].argmax()))
    assert answer == expected[len(ids) :][: len(answer)]
    assert len(answer) > 0
    assert text is None or isinstance(text, str)


FORMS = {
    "gemma4": "<bos><|turn>system\nS<turn|>\n<|turn>user\nU<turn|>\n<|turn>model\n",
    "gemma3": "<bos><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\n",
    "qwen3": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "hunyuan": "<｜hy_begin▁of▁sentence｜>S<｜hy_place▁holder▁no▁3｜>"
    "<｜hy_User｜>U<｜hy_Assistant｜>",
    "llama": "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
    "<|im_start|>assistant\n",
}


@pytest.mark.parametrize("family", FORMS)
def test_templates_have_the_published_forms(family):
    tokenizer = random_models.tokenizer(family)
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    text = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert text == FORMS[family]
    stops = random_models.FAMILIES[family]["stops"]
    assert len({tokenizer.convert_tokens_to_ids(token) for token in stops}) == len(stops) >= 2
