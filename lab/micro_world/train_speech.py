"""Micro Qwen3-ASR: audio encoder, projector and Qwen3 decoder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor

from lab.micro_world import lexicon, training
from lab.micro_world.speech_data import Clip, ClipMaker, features, position_span
from lab.stand_ins.speech_layout import LM_HEAD, original_names, save_model, thinker_config

GUIDED_HEADS = ((1, 0), (2, 1))
FRAME_WEIGHT, GUIDE_WEIGHT = 0.5, 0.1
IGNORE = -100


def configuration(tokenizer: Any) -> Qwen3ASRConfig:
    """Return the micro configuration."""
    token = tokenizer.convert_tokens_to_ids
    return Qwen3ASRConfig(
        audio_config={
            "num_mel_bins": 128,
            "encoder_layers": 4,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 512,
            "d_model": 128,
            "output_dim": 128,
            "downsample_hidden_size": 16,
        },
        text_config={
            "model_type": "qwen3",
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": True,
        },
        audio_token_id=token("<|audio_pad|>"),
        timestamp_token_id=token("<timestamp>"),
        pad_token_id=token("<|endoftext|>"),
        eos_token_id=[token("<|endoftext|>"), token("<|im_end|>")],
    )


class FrameTeacher(nn.Module):
    """Auxiliary head that predicts the word at each encoder output; dropped after training.

    With gold word times this replaces CTC's search for an alignment.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classes = {word: i + 1 for i, word in enumerate(lexicon.english_forms())}
        self.head = nn.Linear(width, len(self.classes) + 1)

    def loss(self, hidden: torch.Tensor, clips: list[Clip], counts: list[int]) -> torch.Tensor:
        """Cross entropy over encoder outputs ``[outputs, width]`` of the whole batch."""
        labels = []
        for clip, count in zip(clips, counts, strict=True):
            row = [0] * count
            for word in clip.words:
                for i in position_span(word, count):
                    row[i] = self.classes[re.sub(r"\W", "", word.text).lower()]
            labels += row
        return functional.cross_entropy(self.head(hidden), torch.tensor(labels))


Guide = tuple[int, int, list[int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded ids, labels, and for each token row, query and audio positions of its word."""

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor
    guides: list[Guide]


@lru_cache(maxsize=4096)
def prompt(tokenizer: Any, context: str) -> tuple[list[int], list[int]]:
    """Return the ids before and after the audio, in the published form."""
    turns = [
        {"role": "system", "content": context},
        {"role": "user", "content": [{"type": "audio"}]},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    before, after = f"{text}language English<asr_text>".split("<|audio_pad|>")
    ids = tokenizer([before, after], add_special_tokens=False)["input_ids"]
    return ids[0], ids[1]


def collate(tokenizer: Any, clips: list[Clip], counts: list[int]) -> Batch:
    """Build the recognizer's prompt and the transcript of each clip."""
    pad_id = tokenizer.convert_tokens_to_ids("<|audio_pad|>")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    rows, labels, guides = [], [], []
    for i, (clip, count) in enumerate(zip(clips, counts, strict=True)):
        before, after = prompt(tokenizer, clip.context)
        asked = before + [pad_id] * count + after
        text = " ".join(word.text for word in clip.words)
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        word_of_char = [k for k, w in enumerate(clip.words) for _ in range(len(w.text) + 1)]
        for t, (_, stop) in enumerate(encoding["offset_mapping"]):
            heard = position_span(clip.words[word_of_char[stop - 1]], count)
            guides.append((i, len(asked) + t - 1, [len(before) + h for h in heard]))
        rows.append(asked + encoding["input_ids"] + [end])
        labels.append([IGNORE] * len(asked) + encoding["input_ids"] + [end])
    ids = training.pad(rows, 0)
    return Batch(
        ids,
        training.pad([[1] * len(r) for r in rows], 0),
        training.pad(labels, IGNORE),
        guides,
    )


def guide_loss(
    attentions: Any, guides: list[Guide], heads: tuple[tuple[int, int], ...]
) -> torch.Tensor:
    """Mean -log attention mass of queries on the audio positions of their words."""
    columns = torch.zeros(len(guides), attentions[0].shape[-1])
    for row, (_, _, wanted) in enumerate(guides):
        columns[row, wanted] = 1.0
    item = torch.tensor([guide[0] for guide in guides])
    query = torch.tensor([guide[1] for guide in guides])
    return training.guide(torch.zeros(()), attentions, heads, item, query, columns) / len(heads)


def train(
    folder: Path,
    tokenizer: Any,
    work: Path,
    *,
    steps: int,
    pool: int,
    batch: int = 20,
    rate: float = 2e-3,
) -> None:
    """Train from scratch and save in the published layout of Qwen3-ASR.

    ``pool`` is the number of spoken training sentences, ``batch`` the clips per update, ``rate``
    the highest learning rate; an interrupted training resumes from ``work``.
    """
    plan = training.Plan("recognizer", steps, rate, seed=2)
    training.seed_everything(plan.seed)
    config = configuration(tokenizer)
    config.text_config._attn_implementation = "eager"
    model = Qwen3ASRForConditionalGeneration(config)
    teacher = FrameTeacher(config.audio_config.output_dim)
    extractor = Qwen3ASRFeatureExtractor()

    maker = ClipMaker(pool, plan.seed)

    def step(number: int) -> tuple[torch.Tensor, dict[str, float]]:
        drawn = maker.batch(number, batch)
        mels, mask, counts = features(extractor, drawn)
        rows = collate(tokenizer, drawn, counts)
        out = model.model(
            input_ids=rows.ids,
            input_features=mels,
            input_features_mask=mask,
            attention_mask=rows.mask,
            output_attentions=True,
            use_cache=False,
        )
        wanted = rows.labels[:, 1:] != IGNORE
        logits = model.lm_head(out.last_hidden_state[:, :-1][wanted])
        words = functional.cross_entropy(logits, rows.labels[:, 1:][wanted])
        frames = teacher.loss(out.audio_hidden_states, drawn, counts)
        guide = guide_loss(out.attentions, rows.guides, GUIDED_HEADS)
        return words + FRAME_WEIGHT * frames + GUIDE_WEIGHT * guide, {
            "lm": words.item(),
            "frames": frames.item(),
            "guide": guide.item(),
        }

    model.train()
    both = nn.ModuleDict({"model": model, "teacher": teacher})
    training.fit(both, step, plan, work)
    weights, ids = original_names(model.state_dict()), tokenizer.get_vocab()
    weights.pop(LM_HEAD, None)  # it is tied to the embeddings
    save_model(weights, thinker_config(config, ids), ids, folder)
