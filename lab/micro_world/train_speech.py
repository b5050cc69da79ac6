"""Train the micro Qwen3-ASR: audio encoder, projector and Qwen3 decoder."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen3ASRForConditionalGeneration

from alignatt_agent.speech.prompt import RecognitionPrompt
from lab.micro_world import lexicon, training
from lab.micro_world.speech_data import Clip, ClipMaker, features, position_span
from lab.micro_world.training import Guide, Losses
from lab.stand_ins import speech_layout

GUIDED_HEADS = ((1, 0), (2, 1))
FRAME_WEIGHT, GUIDE_WEIGHT = 0.5, 0.1
IGNORE = -100
STEPS, RATE, SEED = 6000, 2e-3, 2
FURTHER = 3200, 1e-3, 4
"""Steps, rate and seed of a training that continues a finished training."""
POOL = 9000
"""Number of spoken training sentences."""
BATCH = 20
"""Number of clips per update."""


class FrameTeacher(nn.Module):
    """Auxiliary head that predicts the word at each encoder output; removed after training.

    With gold word times this replaces CTC's search for an alignment.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        # Class 0 is audio without a word.
        self.classes = {word: i for i, word in enumerate(lexicon.english_forms(), 1)}
        self.head = nn.Linear(width, len(self.classes) + 1)

    def loss(self, hidden: torch.Tensor, clips: list[Clip], counts: list[int]) -> torch.Tensor:
        """Cross entropy over encoder outputs ``[outputs, width]`` of the whole batch."""
        labels = []
        for clip, count in zip(clips, counts, strict=True):
            clip_labels = [0] * count
            for word in clip.words:
                bare_word = re.sub(r"\W", "", word.text).lower()
                for i in position_span(word, count):
                    clip_labels[i] = self.classes[bare_word]
            labels += clip_labels
        return functional.cross_entropy(self.head(hidden), torch.tensor(labels))


class SpeechBatch(NamedTuple):
    """Ids and labels of each clip, and for each token the audio positions of its word."""

    ids: list[list[int]]
    labels: list[list[int]]
    guides: list[Guide]


def collate(
    tokenizer: Any, prompt: RecognitionPrompt, clips: list[Clip], counts: list[int]
) -> SpeechBatch:
    """Build the recognizer's request, as in the product, and the transcript of each clip."""
    pad_id, end_id = tokenizer.convert_tokens_to_ids(["<|audio_pad|>", "<|im_end|>"])
    batch = SpeechBatch(ids=[], labels=[], guides=[])
    for number, (clip, count) in enumerate(zip(clips, counts, strict=True)):
        # The prompt has one placeholder for the audio, which stands for ``count`` positions.
        ids = prompt.ids("English", clip.context)
        audio_start = ids.index(pad_id)
        request = [*ids[:audio_start], *[pad_id] * count, *ids[audio_start + 1 :]]
        text = " ".join(word.text for word in clip.words)
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        word_of_char: list[int] = []
        for word_number, word in enumerate(clip.words):
            word_of_char += [word_number] * (len(word.text) + 1)  # and the space after it
        # The query before a token predicts it.
        for query, (_, end) in enumerate(encoding["offset_mapping"], len(request) - 1):
            word = clip.words[word_of_char[end - 1]]
            positions = [audio_start + i for i in position_span(word, count)]
            batch.guides.append((number, query, positions))
        transcript = [*encoding["input_ids"], end_id]
        batch.ids.append(request + transcript)
        batch.labels.append([IGNORE] * len(request) + transcript)
    return batch


def train(folder: Path, tokenizer: Any, work: Path, scale: float, further: bool = False) -> None:
    """Train from scratch and save in the published layout of Qwen3-ASR.

    An interrupted training resumes from ``work``; ``further`` begins with the checkpoint.
    """
    steps, rate, seed = STEPS, RATE, SEED
    if further:
        steps, rate, seed = FURTHER
    plan = training.Plan("recognizer", training.scaled(steps, scale), rate, seed)
    training.seed_everything(plan.seed)
    published = training.MODELS["recognizer"]
    config = speech_layout.transformers_config(published)
    # Other implementations do not return attention weights, which are guided.
    config.text_config._attn_implementation = "eager"
    model = Qwen3ASRForConditionalGeneration(config)
    if further:
        speech_layout.load_recognizer(model, folder)
    teacher = FrameTeacher(config.audio_config.output_dim)
    maker = ClipMaker(training.scaled(POOL, scale, least=120), plan.seed)
    prompt = RecognitionPrompt(tokenizer, tokenizer, str(folder))

    def step(number: int) -> Losses:
        clips = maker.batch(number, BATCH)
        audio, counts = features(clips)
        rows = collate(tokenizer, prompt, clips, counts)
        out = model.model(**training.inputs(rows.ids), **audio)
        # The state at each position predicts the next token.
        labels = training.pad(rows.labels, IGNORE)[:, 1:]
        scored = labels != IGNORE
        logits = model.lm_head(out.last_hidden_state[:, :-1][scored])
        language_loss = functional.cross_entropy(logits, labels[scored])
        frame_loss = teacher.loss(out.audio_hidden_states, clips, counts)
        guide_loss = training.guide_loss(out.attentions, (GUIDED_HEADS, rows.guides))
        return training.weighted(
            lm=(1.0, language_loss),
            frames=(FRAME_WEIGHT, frame_loss),
            guide=(GUIDE_WEIGHT, guide_loss),
        )

    model.train()
    both = nn.ModuleDict({"model": model, "teacher": teacher})
    training.fit(both, step, plan, work)
    weights = speech_layout.original_names(model.state_dict())
    weights.pop(speech_layout.LM_HEAD, None)  # it is tied to the embeddings
    speech_layout.save_model(weights, published, folder)
