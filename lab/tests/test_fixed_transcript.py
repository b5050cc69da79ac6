"""Stand-ins of front ends write the sentence that they were taught, whatever they hear."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alignatt_agent.speech.front_ends import front_end_prompt
from alignatt_agent.types import SAMPLE_RATE
from lab.stand_ins import fixed_transcript
from lab.stand_ins.fixed_transcript import SENTENCE, gemma4_inputs, teach_gemma4, teach_whisper
from lab.stand_ins.layouts import write_gemma4
from lab.stand_ins.whisper import write_whisper


def sweep(seconds):
    """Nothing like what they were taught on, ``[samples]``."""
    at = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.5 * np.sin(2 * np.pi * (200 + 300 * at) * at)).astype(np.float32)


@pytest.mark.parametrize("seconds", [2.0, 5.3])
def test_whisper(whisper, seconds):
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    processor = WhisperProcessor.from_pretrained(whisper)
    model = WhisperForConditionalGeneration.from_pretrained(whisper).eval()
    heard = processor(sweep(seconds), sampling_rate=SAMPLE_RATE, return_tensors="pt")
    ids = list(front_end_prompt("whisper", str(whisper), 448).ids("English"))
    begin = len(ids)
    with torch.inference_mode():
        encoded = model.model.encoder(heard.input_features)
        while ids[-1] != processor.tokenizer.eos_token_id and len(ids) < 40:
            found = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([ids]))
            ids.append(int(found.logits[0, -1].argmax()))
    assert processor.tokenizer.decode(ids[begin:-1]) == f" {SENTENCE}"


@pytest.mark.parametrize("seconds", [2.0, 5.3])
def test_gemma4(gemma4, seconds):
    from transformers import AutoTokenizer, Gemma4ForConditionalGeneration

    model = Gemma4ForConditionalGeneration.from_pretrained(gemma4).eval()
    request = front_end_prompt("gemma4-audio", str(gemma4), 4096).ids("English")
    asked = gemma4_inputs(model, request, sweep(seconds))
    with torch.inference_mode():
        said = model.generate(**asked, max_new_tokens=24, do_sample=False)
    said = said[0, asked["input_ids"].shape[1] :]
    text = AutoTokenizer.from_pretrained(gemma4).decode(said, skip_special_tokens=True)
    assert (text, len(said) < 24) == (SENTENCE, True)


def test_equal_stand_ins_are_taught_equally(whisper, tmp_path):
    again = write_whisper(tmp_path / "again")
    teach_whisper(again)
    weights, others = (load_file(folder / "model.safetensors") for folder in (whisper, again))
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_weights_that_nobody_reads_stay(gemma4, tmp_path):
    before = load_file(write_gemma4(tmp_path / "plain") / "model.safetensors")
    after = load_file(gemma4 / "model.safetensors")
    assert before.keys() == after.keys()
    unread = [name for name, weight in before.items() if weight.isnan().all()]
    assert unread
    assert all(after[name].isnan().all() for name in unread)


def test_one_that_did_not_learn_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(fixed_transcript, "_STEPS", 1)
    with pytest.raises(ValueError, match=r"did not learn what to say, 0\.\d\d sure of it"):
        teach_whisper(write_whisper(tmp_path / "whisper"))


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    folder = write_whisper(tmp_path_factory.mktemp("taught") / "whisper")
    teach_whisper(folder)
    return folder


@pytest.fixture(scope="module")
def gemma4(tmp_path_factory):
    folder = write_gemma4(tmp_path_factory.mktemp("taught") / "gemma4")
    teach_gemma4(folder)
    return folder
