"""Names and files of ``Qwen/Qwen3-ASR-1.7B`` and ``Qwen/Qwen3-ForcedAligner-0.6B``.

These models store their configuration under ``thinker_config`` and their weights under ``thinker``.
Transformers uses other names. The micro models use the published names, so one loading path works
for both.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3ASRConfig

_RENAMED = (
    ("model.multi_modal_projector.linear_1.", "thinker.audio_tower.proj1."),
    ("model.multi_modal_projector.linear_2.", "thinker.audio_tower.proj2."),
    ("model.audio_tower.", "thinker.audio_tower."),
    ("model.language_model.", "thinker.model."),
    ("lm_head.", "thinker.lm_head."),
)
LM_HEAD = "thinker.lm_head.weight"

_ENDS = {"eos_token_id": [0, 2], "pad_token_id": 0}
"""``<|endoftext|>`` and ``<|im_end|>`` of the embedded tokenizer."""


def original_names(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename a ``Qwen3ASRForConditionalGeneration`` state dict to the published names."""
    renamed = {}
    for name, tensor in state.items():
        renamed[_original_name(name)] = tensor.detach().cpu().contiguous()
    return renamed


def _original_name(name: str) -> str:
    for prefix, original_prefix in _RENAMED:
        if name.startswith(prefix):
            return original_prefix + name.removeprefix(prefix)
    raise ValueError(f"no place for weight {name!r} in the original Qwen3-ASR layout")


def load_recognizer(model: torch.nn.Module, folder: Path) -> None:
    """Load the weights that a model shares with the recognizer in a folder."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: first build the recognizer in this --output")
    saved, state = load_file(path), model.state_dict()
    shared: dict[str, torch.Tensor] = {}
    for name, original_name in zip(state, original_names(state), strict=True):
        if original_name in saved:
            shared[name] = saved[original_name]
    model.load_state_dict(shared, strict=False)


def transformers_config(published: Mapping[str, Any]) -> Qwen3ASRConfig:
    """Return a published ``config.json`` in the form of Transformers' class."""
    thinker = published["thinker_config"]
    text = dict(thinker["text_config"])
    text.pop("rope_scaling", None)
    return Qwen3ASRConfig(
        audio_config={**thinker["audio_config"], "model_type": "qwen3_asr_encoder"},
        text_config=text,
        audio_token_id=thinker["audio_token_id"],
        **_ENDS,
    )


def save_model(
    weights: dict[str, torch.Tensor], published: Mapping[str, Any], folder: Path
) -> None:
    """Write weights of published names and the configuration; no tokenizer."""
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", published)
    write_json(folder / "generation_config.json", {"do_sample": False, **_ENDS})
    shutil.copy(Path(__file__).with_name("preprocessor_config.json"), folder)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write an indented JSON file."""
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
