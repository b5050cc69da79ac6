"""Micro Qwen3 forced aligner, initialized from the recognizer; its decoder learns time bins."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen3ASRForConditionalGeneration

from alignatt_agent.types import SAMPLE_RATE, Word
from lab.micro_world import training
from lab.micro_world.speech_data import Clip, ClipMaker, features, position_span, position_time
from lab.micro_world.train_speech import IGNORE
from lab.micro_world.training import Guide, Losses
from lab.stand_ins import speech_layout

PUBLISHED = training.MODELS["aligner"]
BINS = PUBLISHED["thinker_config"]["classify_num"]
BIN_S = PUBLISHED["timestamp_segment_time"] / 1000
SPAN_HEADS, EDGE_HEADS = ((1, 0),), ((2, 1), (3, 2))
CLOCK_WEIGHT, GUIDE_WEIGHT = 0.3, 0.1
POOL = 3000
"""Number of spoken training sentences of a round."""
BATCH = 20
"""Number of clips per update."""
CLIP_LENGTHS = (0.5, 0.3, 0.12, 0.05, 0.03)
"""Weights of clips of one to five sentences."""
ROUNDS = ((1200, 2e-3, 3), (1000, 1.5e-3, 4), (800, 1.2e-3, 5))
"""Steps, rate and seed of each round over new clips; the rate decays to almost nothing. The mean
error of word ends after them is 45.5 ms (`python -m lab.micro_world.measure`)."""


class AlignerRow(NamedTuple):
    """One aligner prompt with its labels."""

    ids: list[int]
    """Audio placeholders, then ``word<timestamp><timestamp>`` for each word."""
    labels: list[int]
    """Time bin at every position, ``IGNORE`` at word tokens."""
    words: list[tuple[int, int, list[int]]]
    """For each word, the positions of its two timestamps, and the audio positions that it spans."""


def bins(word: Word, duration: float) -> tuple[int, int]:
    """Return the start and end bin; a word cut off by the end of the audio ends past it."""
    start = round(word.start / BIN_S)
    end = round(word.end / BIN_S)
    if word.end > duration:
        end = math.ceil(duration / BIN_S)
    return start, max(start, end)


def layout(tokenizer: Any, clip: Clip, count: int) -> AlignerRow:
    """Write ``clip`` as the aligner's prompt."""
    token = tokenizer.convert_tokens_to_ids
    stamp = token("<timestamp>")
    ids = [token("<|audio_start|>"), *[token("<|audio_pad|>")] * count, token("<|audio_end|>")]
    audio_bins = [int(position_time(i) / BIN_S) for i in range(count)]
    labels = [IGNORE, *audio_bins, IGNORE]
    duration = len(clip.audio) / SAMPLE_RATE
    words = []
    for word in clip.words:
        bare_word = re.sub(r"[^\w']", "", word.text)
        word_ids = tokenizer(bare_word, add_special_tokens=False)["input_ids"]
        ids += [*word_ids, stamp, stamp]
        labels += [IGNORE] * len(word_ids)
        labels += bins(word, duration)
        # The audio follows the token that starts it.
        positions = [1 + i for i in position_span(word, count)]
        words.append((len(ids) - 2, len(ids) - 1, positions))
    return AlignerRow(ids, labels, words)


def train(folder: Path, tokenizer: Any, work: Path, scale: float) -> None:
    """Train the decoder and the classifier over the frozen encoder of the recognizer.

    An interrupted training resumes from ``work``.
    """
    training.seed_everything(ROUNDS[0][-1])
    config = speech_layout.transformers_config(PUBLISHED)
    # Other implementations do not return attention weights, which are guided.
    config.text_config._attn_implementation = "eager"
    model = Qwen3ASRForConditionalGeneration(config)
    speech_layout.load_recognizer(model, folder.with_name("qwen3-asr"))
    model.model.audio_tower.requires_grad_(False)
    classifier = nn.Linear(config.text_config.hidden_size, BINS, bias=False)

    def step(number: int) -> Losses:
        clips = maker.batch(number, BATCH)
        audio, counts = features(clips)
        rows = [layout(tokenizer, clip, n) for clip, n in zip(clips, counts, strict=True)]
        inputs = training.inputs([row.ids for row in rows])
        out = model.model(**inputs, **audio)
        stamps, clock = _bin_losses(classifier, out.last_hidden_state, rows, counts)
        spans, edges = _guides(rows)
        guide = training.guide_loss(out.attentions, (SPAN_HEADS, spans), (EDGE_HEADS, edges))
        return training.weighted(
            stamps=(1.0, stamps), clock=(CLOCK_WEIGHT, clock), guide=(GUIDE_WEIGHT, guide)
        )

    model.train()
    both = nn.ModuleDict({"model": model, "classifier": classifier})
    pool = training.scaled(POOL, scale, least=120)
    for number, (steps, rate, seed) in enumerate(ROUNDS, 1):
        plan = training.Plan(f"aligner-{number}", training.scaled(steps, scale), rate, seed)
        maker = ClipMaker(pool, seed, max_seconds=20.0, lengths=CLIP_LENGTHS)
        training.fit(both, step, plan, work)
    weights = speech_layout.original_names(model.model.state_dict(prefix="model."))
    weights[speech_layout.LM_HEAD] = classifier.weight.detach().cpu().contiguous()
    speech_layout.save_model(weights, PUBLISHED, folder)


def _bin_losses(
    classifier: nn.Linear, hidden: torch.Tensor, rows: list[AlignerRow], counts: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross entropy at timestamps, and at audio positions, which teaches the decoder to count."""
    labels = training.pad([row.labels for row in rows], IGNORE)
    audio = torch.zeros(labels.shape, dtype=torch.bool)
    for number, count in enumerate(counts):
        audio[number, 1 : 1 + count] = True
    stamps = (labels != IGNORE) & ~audio
    stamp_loss = functional.cross_entropy(classifier(hidden[stamps]), labels[stamps])
    sampled_audio = audio & (torch.rand(labels.shape) < 0.3)
    audio_loss = functional.cross_entropy(classifier(hidden[sampled_audio]), labels[sampled_audio])
    return stamp_loss, audio_loss


def _guides(rows: list[AlignerRow]) -> tuple[list[Guide], list[Guide]]:
    """Guide timestamps to all audio of their word, and to its first or last position."""
    spans: list[Guide] = []
    edges: list[Guide] = []
    for number, row in enumerate(rows):
        for start, end, positions in row.words:
            spans += [(number, start, positions), (number, end, positions)]
            edges += [(number, start, positions[:1]), (number, end, positions[-1:])]
    return spans, edges
