"""Folders with the published dimensions of a model. Engines draw random weights.

Speed, memory, graphs and cache layouts do not depend on the values of weights. Each configuration
has a small tokenizer. Larger ids exist, but occur in no text.
"""

import copy
from functools import partial
from pathlib import Path

from transformers import GenerationConfig
from transformers.models.gemma4 import Gemma4TextConfig

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.model_sizes import PUBLISHED
from lab.stand_ins import random_models
from lab.stand_ins import speech as published_speech
from lab.stand_ins.speech_layout import write_json

TRANSLATION = "google/gemma-4-E4B-it"
SPEECH = {"asr": "Qwen/Qwen3-ASR-1.7B", "aligner": "Qwen/Qwen3-ForcedAligner-0.6B"}

HEADS = ((0, 3), (5, 0), (6, 5), (10, 4), (11, 2), (11, 3), (17, 3), (20, 0))
"""Eight heads of Gemma-4 E4B: one in a full-attention layer, seven in sliding-window layers."""


def translation(folder: Path) -> ModelConfig:
    """Write the dimensions of the text model of Gemma-4 E4B."""
    text = PUBLISHED[TRANSLATION]["text_config"]
    more = {"final_logit_softcapping": 30.0, "architectures": ["Gemma4ForCausalLM"]}
    Gemma4TextConfig(**text, **more, dtype="bfloat16").save_pretrained(folder)
    GenerationConfig(bos_token_id=2, eos_token_id=[1, 5], pad_token_id=0).save_pretrained(folder)
    random_models.tokenizer().save_pretrained(folder)
    return _random(folder)


def speech(folder: Path, role: str) -> ModelConfig:
    """Write the embedded model of a role with the dimensions of the published one."""
    published_speech.publish(role, folder)
    (folder / "model.safetensors").unlink()
    config = copy.deepcopy(published_speech.CONFIGS[role])
    ours, theirs = config["thinker_config"], PUBLISHED[SPEECH[role]]["thinker_config"]
    for part in ("audio_config", "text_config"):
        ours[part] |= theirs[part]
    ours["text_config"]["max_position_embeddings"] = 65536
    ours["text_config"]["rope_scaling"]["mrope_section"] = [24, 20, 20]
    if bins := theirs.get("classify_num"):
        ours["classify_num"] = bins
    ours["dtype"] = "bfloat16"
    write_json(folder / "config.json", config)
    return _random(folder)


def _random(folder: Path) -> ModelConfig:
    return ModelConfig(path=str(folder), dtype="bfloat16", engine={"load_format": "dummy"})


MODELS = {
    "asr": partial(speech, role="asr"),
    "aligner": partial(speech, role="aligner"),
    "translation": translation,
}
"""Functions that write the model of each role into a folder, in the order of engine starts."""
