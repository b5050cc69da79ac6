"""Exported speech checkpoints do in vLLM what the trained model does in Transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignatt_agent.engine import pool
from alignatt_agent.engine.speech_models import SpeechModel
from micro_world.export import original_names
from tests.engine import checkpoints


def audio_tokens(frames: int) -> int:
    rest = frames % 100
    return -(-rest // 8) + 13 * (frames // 100)


def features(audio: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    from transformers import Qwen3ASRFeatureExtractor

    found = Qwen3ASRFeatureExtractor()(
        audio, padding="longest", sampling_rate=16_000, return_attention_mask=True
    )
    return found["input_features"], found["attention_mask"]


@pytest.fixture(scope="module")
def audio() -> np.ndarray:
    samples = np.random.default_rng(3).standard_normal(16_000 * 5 // 2) * 0.1
    return samples.astype(np.float32)


def spread(text: str, audio: np.ndarray, tokenizer) -> list[int]:
    pads = "<|audio_pad|>" * audio_tokens(len(audio) // 160)
    return tokenizer.encode(text.replace("<|audio_pad|>", pads))


def test_recogniser(engines, audio):
    torch.manual_seed(1)
    model, tokenizer = checkpoints._qwen()
    text = "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\nlanguage"
    ids = torch.tensor([spread(text, audio, tokenizer)])
    mel, mask = features(audio)
    expected = model.generate(
        input_ids=ids,
        input_features=mel,
        input_features_mask=mask,
        max_new_tokens=12,
        do_sample=False,
    )[0, ids.shape[1] :].tolist()
    served = SpeechModel(pool._served["asr"][1])
    got = served.generate(tokenizer.encode(text), audio, 12)
    assert got == [token for token in expected if token not in served._stops]


@torch.inference_mode()
def test_aligner(engines, audio):
    torch.manual_seed(2)
    model, tokenizer = checkpoints._qwen()
    head = torch.randn(400, model.config.text_config.hidden_size)
    text = "<|audio_start|><|audio_pad|><|audio_end|>the<timestamp><timestamp>talk<timestamp>"
    ids = torch.tensor([spread(text, audio, tokenizer)])
    mel, mask = features(audio)
    hidden = model.model(input_ids=ids, input_features=mel, input_features_mask=mask)
    logits = hidden.last_hidden_state @ head.T
    stamp = tokenizer.convert_tokens_to_ids("<timestamp>")
    expected = logits[ids == stamp].argmax(-1).tolist()
    got = engines.aligner._model.bins(tokenizer.encode(text), audio)
    assert len(got) == 3
    assert got == expected


def test_export_refuses_unknown_weights():
    with pytest.raises(ValueError, match=r"no place for weight 'score\.weight'"):
        original_names({"score.weight": torch.zeros(1)})
