"""Micro Qwen3 forced aligner: starts from the recognizer, its decoder learns to name time bins."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen3ASRForConditionalGeneration
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor

from alignatt_agent.types import SAMPLE_RATE, Word
from lab.micro_world import train_speech, training
from lab.micro_world.speech_data import Clip, ClipMaker, features, position_span, position_time
from lab.stand_ins.speech_layout import (
    LM_HEAD,
    TIMESTAMP_MS,
    as_aligner,
    original_names,
    save_model,
    thinker_config,
)

BINS = 400
"""Number of time bins: 32 seconds of 80 ms."""
SPAN_HEADS, EDGE_HEADS = ((1, 0),), ((2, 1), (3, 2))
CLOCK_WEIGHT, GUIDE_WEIGHT = 0.3, 0.1
IGNORE = -100
BATCH = 20
CLIP_LENGTHS = (0.5, 0.3, 0.12, 0.05, 0.03)
"""Weights of clips of one to five sentences."""


class Round(NamedTuple):
    """One training round over new clips, with a learning rate that decays to almost nothing."""

    seed: int
    steps: int
    rate: float


ROUNDS = (Round(3, 1200, 2e-3), Round(4, 1000, 1.5e-3), Round(5, 800, 1.2e-3))
"""The mean error of word ends after them is 45.5 ms (`python -m lab.micro_world.measure`)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One aligner prompt with its labels."""

    ids: list[int]
    """Audio placeholders, then ``word<timestamp><timestamp>`` for each word."""
    labels: list[int]
    """Time bin at every position, ``IGNORE`` at word tokens."""
    words: list[tuple[int, int, list[int]]]
    """For each word the positions of its two timestamps, and the audio positions it spans."""


def bins(word: Word, duration: float) -> tuple[int, int]:
    """Return the start and end bin; a word cut off by the end of the audio ends past it."""
    width = TIMESTAMP_MS / 1000
    end = round(word.end / width) if word.end <= duration else math.ceil(duration / width)
    return round(word.start / width), max(end, round(word.start / width))


def layout(tokenizer: Any, clip: Clip, count: int) -> Layout:
    """Write ``clip`` as the aligner's prompt."""
    token = tokenizer.convert_tokens_to_ids
    stamp = token("<timestamp>")
    ids = [token("<|audio_start|>"), *[token("<|audio_pad|>")] * count, token("<|audio_end|>")]
    width = TIMESTAMP_MS / 1000
    labels = [IGNORE, *[int(position_time(i) / width) for i in range(count)], IGNORE]
    words = []
    for word in clip.words:
        text = tokenizer(re.sub(r"[^\w']", "", word.text), add_special_tokens=False)["input_ids"]
        ids += [*text, stamp, stamp]
        labels += [IGNORE] * len(text) + list(bins(word, len(clip.audio) / SAMPLE_RATE))
        heard = [1 + i for i in position_span(word, count)]
        words.append((len(ids) - 2, len(ids) - 1, heard))
    return Layout(ids, labels, words)


def train(folder: Path, tokenizer: Any, work: Path, *, scale: float = 1.0, pool: int) -> None:
    """Train the decoder and the classifier over the frozen encoder of the recognizer.

    Args:
        folder: checkpoint to write, in the published layout of the forced aligner.
        tokenizer: that of the recognizer.
        work: folder in which the recognizer was trained and interrupted trainings resume.
        scale: fraction of the steps of ``ROUNDS``.
        pool: number of spoken training sentences of a round.
    """
    training.seed_everything(ROUNDS[0].seed)
    config = train_speech.configuration(tokenizer)
    config.text_config.num_hidden_layers = 4
    config.text_config.layer_types = ["full_attention"] * 4
    config.text_config._attn_implementation = "eager"
    model = Qwen3ASRForConditionalGeneration(config)
    model.load_state_dict(training.trained(work, "recognizer", "model"), strict=False)
    model.model.audio_tower.requires_grad_(False)
    classifier = nn.Linear(config.text_config.hidden_size, BINS, bias=False)
    extractor = Qwen3ASRFeatureExtractor()

    def update(drawn: list[Clip]) -> tuple[torch.Tensor, dict[str, float]]:
        mels, mask, counts = features(extractor, drawn)
        rows = [layout(tokenizer, c, n) for c, n in zip(drawn, counts, strict=True)]
        out = model.model(
            input_ids=training.pad([r.ids for r in rows], 0),
            input_features=mels,
            input_features_mask=mask,
            attention_mask=training.pad([[1] * len(r.ids) for r in rows], 0),
            output_attentions=True,
            use_cache=False,
        )
        stamps, clock = _bin_losses(classifier, out.last_hidden_state, rows, counts)
        guide = _guide_loss(out.attentions, rows)
        return stamps + CLOCK_WEIGHT * clock + GUIDE_WEIGHT * guide, {
            "stamps": stamps.item(),
            "clock": clock.item(),
            "guide": guide.item(),
        }

    model.train()
    both = nn.ModuleDict({"model": model, "classifier": classifier})
    for number, round_ in enumerate(ROUNDS, 1):
        steps = max(2, round(round_.steps * scale))
        plan = training.Plan(f"aligner-{number}", steps, round_.rate, round_.seed)
        maker = ClipMaker(pool, round_.seed, max_seconds=20.0, lengths=CLIP_LENGTHS)
        training.fit(both, partial(_step, update, maker), plan, work)
    parts = model.state_dict().items()
    weights = original_names({k: v for k, v in parts if not k.startswith("lm_head.")})
    weights[LM_HEAD] = classifier.weight.detach().cpu().contiguous()
    ids = tokenizer.get_vocab()
    save_model(weights, as_aligner(thinker_config(config, ids), BINS, ids), ids, folder)


def _step(
    update: Callable[[list[Clip]], tuple[torch.Tensor, dict[str, float]]],
    maker: ClipMaker,
    number: int,
) -> tuple[torch.Tensor, dict[str, float]]:
    return update(maker.batch(number, BATCH))


def _bin_losses(
    classifier: nn.Linear, hidden: torch.Tensor, rows: list[Layout], counts: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross entropy at timestamps, and at audio positions, which teaches the decoder to count."""
    labels = training.pad([row.labels for row in rows], IGNORE)
    audio = torch.zeros(labels.shape, dtype=torch.bool)
    for i, count in enumerate(counts):
        audio[i, 1 : 1 + count] = True
    stamps = (labels != IGNORE) & ~audio
    thin = audio & (torch.rand(labels.shape) < 0.3)
    return (
        functional.cross_entropy(classifier(hidden[stamps]), labels[stamps]),
        functional.cross_entropy(classifier(hidden[thin]), labels[thin]),
    )


def _guide_loss(attentions: Any, rows: list[Layout]) -> torch.Tensor:
    """Mean -log attention of timestamps on the word's audio and on its first or last position."""
    item, query, spans, edges = [], [], [], []
    for i, row in enumerate(rows):
        for first, last, heard in row.words:
            item += [i, i]
            query += [first, last]
            spans += [heard, heard]
            edges += [heard[:1], heard[-1:]]
    total = torch.zeros(())
    for heads, targets in ((SPAN_HEADS, spans), (EDGE_HEADS, edges)):
        columns = torch.zeros(len(item), attentions[0].shape[-1])
        for k, positions in enumerate(targets):
            columns[k, positions] = 1.0
        total = training.guide(total, attentions, heads, item, query, columns)
    return total / (len(SPAN_HEADS) + len(EDGE_HEADS))
