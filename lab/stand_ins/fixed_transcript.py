"""Random recognizers that always transcribe one sentence.

The transcript of a random model cannot be translated. The last decoder layer of a stand-in is
therefore trained on one sentence, after several sounds and the exact request of our front end; the
other weights stay random, some of them scaled down. Such a model shows that a front end is served,
prompted and read correctly, and that the cascade runs behind it. Its transcript does not depend on
the audio, so the times of its words mean nothing. (The tests of the front ends show that random
models depend on the audio, and decode what Transformers decodes.)
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import (
    AutoTokenizer,
    Gemma4AudioFeatureExtractor,
    Gemma4ForConditionalGeneration,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

from alignatt_agent.speech.front_ends import GemmaPrompt, WhisperPrompt
from alignatt_agent.types import SAMPLE_RATE, FloatArray

SENTENCE = "We read every word of the talk."
"""No token occurs twice, so the previous token determines the next one."""

_CALM = 0.02
"""Factor on the output of a layer of Gemma-4: without it, states soon lose their own token."""

_DEAF = 0.002
"""Factor on attention to other places, audio among them: without it, the training sounds were
memorized, and speech got another transcript."""

_SURE = 0.9
"""Least probability of every token."""

_STEPS = 500
"""Most training steps; it took 10 to 80."""


def sounds(seed: int = 0) -> Iterator[FloatArray]:
    """Yield noise of several lengths and levels, ``[samples]``."""
    rng = np.random.default_rng(seed)
    for seconds, level in ((2.0, 0.0), (2.5, 0.01), (3.0, 0.03), (4.0, 0.1), (6.0, 0.3)):
        noise = level * rng.standard_normal(round(seconds * SAMPLE_RATE))
        yield noise.astype(np.float32)


def teach_whisper(folder: Path) -> None:
    """Train a Whisper checkpoint to transcribe ``SENTENCE``, in place."""
    model: Any = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    processor = WhisperProcessor.from_pretrained(folder)
    tokenizer = processor.tokenizer
    request = WhisperPrompt(tokenizer, str(folder)).ids("English")
    said = [*tokenizer.encode(" " + SENTENCE, add_special_tokens=False), tokenizer.eos_token_id]

    def ask(audio: FloatArray) -> dict[str, Any]:
        heard = processor(audio=audio, sampling_rate=SAMPLE_RATE, return_tensors="pt")
        ids = torch.tensor([[*request, *said[:-1]]])
        return {"input_features": heard.input_features, "decoder_input_ids": ids}

    decoder = model.model.decoder
    for name, weight in decoder.layers.named_parameters():
        if "encoder_attn.out_proj" in name:
            weight.data.mul_(_DEAF)
    _teach(model, decoder.layers, (decoder.layer_norm, model.proj_out), ask, said, folder)


def teach_gemma4(folder: Path) -> None:
    """Train a Gemma-4 checkpoint to answer a transcription request with ``SENTENCE``, in place."""
    model: Any = Gemma4ForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    request = GemmaPrompt(tokenizer, str(folder), 4096).ids("English")
    said = tokenizer.encode(SENTENCE + "<turn|>", add_special_tokens=False)

    def ask(audio: FloatArray) -> dict[str, Any]:
        asked = gemma4_inputs(model, request, audio)
        answer = torch.tensor([said[:-1]])
        return {**asked, "input_ids": torch.cat([asked["input_ids"], answer], 1)}

    text = model.model.language_model
    for name, weight in text.layers.named_parameters():
        if ".post_" in name:
            weight.data.mul_(_DEAF if "attention" in name else _CALM)
    _teach(model, text.layers, (text.norm, model.lm_head), ask, said, folder)


def gemma4_inputs(model: Any, ids: Sequence[int], audio: FloatArray) -> dict[str, Any]:
    """Return the inputs of Transformers' class for a request with one placeholder for audio."""
    found = Gemma4AudioFeatureExtractor()(
        [audio], sampling_rate=SAMPLE_RATE, return_tensors="pt", padding="longest"
    )
    mask, config = found["input_features_mask"], model.config
    count = int(mask[:, ::2][:, ::2].sum())  # the encoder halves the frames twice
    at = list(ids).index(config.audio_token_id)
    spread = [config.boa_token_id, *[config.audio_token_id] * count, config.eoa_token_index]
    return {
        "input_ids": torch.tensor([[*ids[:at], *spread, *ids[at + 1 :]]]),
        "input_features": found["input_features"],
        "input_features_mask": mask,
    }


def _teach(
    model: Any,
    layers: Any,
    output: Sequence[Any],
    ask: Callable[[FloatArray], dict[str, Any]],
    said: Sequence[int],
    folder: Path,
) -> None:
    """Train the last layer until ``said`` is certain after every sound, and save the weights."""
    last, labels = layers[-1], torch.tensor(said)
    with torch.no_grad():  # what comes before the last layer does not change
        taken = [_taken(model, last, ask(audio)) for audio in sounds()]

    def logits() -> torch.Tensor:
        found = []
        for arguments, options in taken:
            states = last(*arguments, **options)
            states = states[0] if isinstance(states, tuple) else states
            for module in output:
                states = module(states)
            found.append(states[0, -len(said) :])
        return torch.stack(found)

    lesson = [weight for name, weight in last.named_parameters() if "att" not in name]
    norm = {"params": output[0].parameters(), "lr": 0.5}  # its scale is how sure a model can be
    optimizer = torch.optim.Adam([{"params": lesson}, norm], lr=1e-2)
    for _ in range(_STEPS):
        scores = logits()
        least = scores.softmax(-1)[..., range(len(said)), said].min()
        if least > _SURE:
            break
        optimizer.zero_grad()
        loss: Any = cross_entropy(scores.flatten(0, 1), labels.repeat(len(scores)))
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for audio in sounds(seed=1):
            found = model(**ask(audio)).logits[0, -len(said) :].argmax(-1)
            if found.tolist() != list(said):
                raise ValueError(f"a stand-in did not learn what to say, {least:.2f} sure of it")
    path = folder / "model.safetensors"
    weights, taught = load_file(path), model.state_dict()
    weights |= {name: taught[name].contiguous() for name in weights.keys() & taught.keys()}
    save_file(weights, path, metadata={"format": "pt"})


def _taken(model: Any, layer: Any, inputs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Return the inputs of a layer when the model runs."""
    found: list[tuple[tuple[Any, ...], Any]] = []
    hook = layer.register_forward_pre_hook(
        lambda _, arguments, options: found.append((arguments, options)), with_kwargs=True
    )
    model(**inputs, use_cache=False)
    hook.remove()
    return found[0]
