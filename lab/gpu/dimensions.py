"""Folders that hold a model's published dimensions and no weights: engines draw random ones.

Speed, memory, graphs and cache layouts do not depend on what weights say. A tokenizer of 512 ids
is beside each configuration; larger ids exist, and no text has them.
"""

from functools import partial
from pathlib import Path
from typing import Any

from transformers import GenerationConfig
from transformers.models.gemma4 import Gemma4TextConfig
from transformers.models.qwen3_asr import Qwen3ASRConfig

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.model_sizes import PUBLISHED
from lab.stand_ins import random_models
from lab.stand_ins import speech as published_speech
from lab.stand_ins.speech_layout import as_aligner, save_settings, thinker_config

TRANSLATION = "google/gemma-4-E4B-it"
RECOGNIZER = "Qwen/Qwen3-ASR-1.7B"
ALIGNER = "Qwen/Qwen3-ForcedAligner-0.6B"

_WINDOWS = {"n_window": 50, "n_window_infer": 800}
"""Frames that the audio encoders attend to at a time, in training and in use."""

HEADS = ((0, 3), (5, 0), (6, 5), (10, 4), (11, 2), (11, 3), (17, 3), (20, 0))
"""Eight heads of Gemma-4 E4B: one in a full layer, seven in sliding ones, as in its head sets."""


def translation(folder: Path) -> ModelConfig:
    """Write the dimensions of the text model of Gemma-4 E4B."""
    text = PUBLISHED[TRANSLATION]["text_config"]
    more = {"final_logit_softcapping": 30.0, "architectures": ["Gemma4ForCausalLM"]}
    Gemma4TextConfig(**text, **more, dtype="bfloat16").save_pretrained(folder)
    GenerationConfig(bos_token_id=2, eos_token_id=[1, 5], pad_token_id=0).save_pretrained(folder)
    random_models.tokenizer().save_pretrained(folder)
    return _random(folder)


def speech(folder: Path, model: str) -> ModelConfig:
    """Write the dimensions of Qwen3-ASR-1.7B or of its forced aligner."""
    ids = published_speech.save_tokenizer(folder)
    thinker = PUBLISHED[model]["thinker_config"]
    text: dict[str, Any] = {**thinker["text_config"], "max_position_embeddings": 65536}
    published = Qwen3ASRConfig(
        audio_config={**thinker["audio_config"], **_WINDOWS},
        text_config=text,
        tie_word_embeddings=text["tie_word_embeddings"],
        **published_speech.special_ids(ids),
    )
    config = thinker_config(published, ids)
    if model == ALIGNER:
        config = as_aligner(config, thinker["classify_num"], ids)
    save_settings(config, "bfloat16", ids, folder)
    return _random(folder)


def _random(folder: Path) -> ModelConfig:
    return ModelConfig(path=str(folder), dtype="bfloat16", engine={"load_format": "dummy"})


MODELS = {
    "asr": partial(speech, model=RECOGNIZER),
    "aligner": partial(speech, model=ALIGNER),
    "translation": translation,
}
"""What writes the model of each role into a folder, in the order in which engines start."""
