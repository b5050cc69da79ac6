"""Speech checkpoints in the published layout have the same output in vLLM and in Transformers."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BatchFeature

from alignatt_agent.engine.speech_models import SpeechModel
from alignatt_agent.speech.front_ends import front_end_prompt
from alignatt_agent.speech.prompt import RecognitionPrompt
from lab.stand_ins.speech import drawn_model
from lab.stand_ins.speech_layout import LM_HEAD


@pytest.fixture(scope="module")
def audio() -> np.ndarray:
    samples = np.random.default_rng(3).standard_normal(16_000 * 5 // 2) * 0.1
    return samples.astype(np.float32)


def inputs(tokenizer, text: str, audio: np.ndarray) -> BatchFeature:
    """Return a prompt and its audio as processed by Transformers' own processor."""
    from transformers.models.qwen3_asr import Qwen3ASRFeatureExtractor, Qwen3ASRProcessor

    processor = Qwen3ASRProcessor(Qwen3ASRFeatureExtractor(), tokenizer)
    return processor(text=text, audio=audio, return_tensors="pt")


def test_recogniser(engines, runtime, audio):
    served = SpeechModel(runtime.served["asr"])
    tokenizer = served.tokenizer
    model = drawn_model("asr", 1)
    text = "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\nlanguage"
    given = inputs(tokenizer, text, audio)
    answer = model.generate(**given, max_new_tokens=12, do_sample=False)
    expected = answer[0, given["input_ids"].shape[1] :].tolist()
    got = served.generate(tokenizer.encode(text), audio, 12)
    assert list(got.token_ids) == [token for token in expected if token not in served._stops]
    assert got.ended == (expected[-1] in served._stops)
    assert not served._model.config.uses_mrope


def test_the_engine_reads_the_published_template(engines, runtime, checkpoints):
    served = SpeechModel(runtime.served["asr"])
    ours = RecognitionPrompt(served.processor, served.tokenizer, served.name)
    theirs = front_end_prompt("qwen3-asr", str(checkpoints / "asr"), 4096)
    for context in ("", "AlignAtt, vLLM"):
        assert ours.ids("English", context) == theirs.ids("English", context)
    assert len(ours.ids("English", "AlignAtt")) > len(ours.ids("English"))
    noise = np.random.default_rng(5).standard_normal(16_000).astype(np.float32) * 0.1
    heard = engines.asr.transcribe(noise, "en", "AlignAtt").text
    assert heard is None or isinstance(heard, str)


@torch.inference_mode()
def test_aligner(engines, audio, checkpoints):
    served = engines.aligner._model
    tokenizer = served.tokenizer
    model = drawn_model("aligner", 2)
    head = load_file(checkpoints / "aligner" / "model.safetensors")[LM_HEAD]
    text = "<|audio_start|><|audio_pad|><|audio_end|>the<timestamp><timestamp>talk<timestamp>"
    given = inputs(tokenizer, text, audio)
    logits = model.model(**given).last_hidden_state @ head.T
    stamp = tokenizer.convert_tokens_to_ids("<timestamp>")
    expected = logits[given["input_ids"] == stamp].argmax(-1).tolist()
    got = served.bins(tokenizer.encode(text), audio)
    assert len(got) == 3
    assert got == expected
    assert not served._model.config.uses_mrope
