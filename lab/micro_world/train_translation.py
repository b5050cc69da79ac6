"""Train the micro Gemma-4: sliding and full layers, shared KV, per-layer embeddings."""

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import Gemma4ForCausalLM, Gemma4TextConfig, GenerationConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextDecoderLayer

from lab.micro_world import training
from lab.micro_world.training import Guide, Losses
from lab.micro_world.translation_data import Example, ExampleMaker

PREDICTING_HEADS = ((2, 3), (3, 1), (3, 6), (4, 2))
"""Heads guided at the query that predicts a target token."""
EMITTED_HEADS = ((1, 4), (3, 3), (5, 5))
"""Heads guided at the query of the target token."""
NAME_HEADS = ((4, 5), (5, 1))
"""Heads guided to a listed name, at the query that predicts a name with two spellings."""
GUIDE_WEIGHT = 0.1
STEPS, RATE, SEED = 8000, 3e-3, 1
FURTHER = 1200, 1.5e-3, 5
"""Steps, rate and seed of a training that continues a finished training."""
BATCH = 40
"""Number of examples per update."""


def train(folder: Path, tokenizer: Any, work: Path, scale: float, further: bool = False) -> None:
    """Train from scratch and save the checkpoint to ``folder``, next to its tokenizer.

    An interrupted training resumes from ``work``; ``further`` begins with the checkpoint.
    """
    steps, rate, seed = STEPS, RATE, SEED
    if further:
        steps, rate, seed = FURTHER
    plan = training.Plan("translation", training.scaled(steps, scale), rate, seed)
    training.seed_everything(plan.seed)
    config = Gemma4TextConfig(**training.MODELS["translation"])
    # Other implementations do not return attention weights, which are guided.
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config)
    if further:
        model.load_state_dict(Gemma4ForCausalLM.from_pretrained(folder).state_dict())
    maker = ExampleMaker(tokenizer, plan.seed)

    def step(number: int) -> Losses:
        rows = maker.batch(number, BATCH)
        inputs = training.inputs([row.ids for row in rows])
        out = model.model(**inputs)
        predicting, emitted, named = _guides(rows)
        language_loss = _language_loss(model, out.last_hidden_state, rows)
        guide_loss = training.guide_loss(
            out.attentions, (PREDICTING_HEADS, predicting), (EMITTED_HEADS, emitted)
        )
        name_loss = training.guide_loss(out.attentions, (NAME_HEADS, named))
        return training.weighted(
            lm=(1.0, language_loss),
            guide=(GUIDE_WEIGHT, guide_loss),
            names=(GUIDE_WEIGHT, name_loss),
        )

    model.train()
    training.compile_layers(model, Gemma4TextDecoderLayer, plan)
    training.fit(model, step, plan, work)
    # The real checkpoint has these ids in its generation config too.
    model.generation_config = GenerationConfig(
        do_sample=False,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    )
    model.save_pretrained(folder)


def _guides(rows: list[Example]) -> tuple[list[Guide], list[Guide], list[Guide]]:
    """Return the guides of queries that predict a token, of emitted tokens, and of names."""
    predicting: list[Guide] = []
    emitted: list[Guide] = []
    named: list[Guide] = []
    for number, row in enumerate(rows):
        for place, guide, name in zip(row.places, row.guides, row.names, strict=True):
            if guide:
                predicting.append((number, place - 1, guide))
                emitted.append((number, place, guide))
            if name:
                named.append((number, place - 1, name))
    return predicting, emitted, named


def _language_loss(model: Any, hidden: torch.Tensor, rows: list[Example]) -> torch.Tensor:
    """Cross entropy of target tokens, weighted, from states ``[batch, positions, width]``."""
    row_numbers: list[int] = []
    queries: list[int] = []
    next_ids: list[int] = []
    token_weights: list[float] = []
    for number, row in enumerate(rows):
        for place in row.places:
            row_numbers.append(number)
            queries.append(place - 1)
            next_ids.append(row.ids[place])
        token_weights += row.weights
    weights = torch.tensor(token_weights)
    logits = model.lm_head(hidden[row_numbers, queries])
    loss = functional.cross_entropy(logits, torch.tensor(next_ids), reduction="none")
    return (loss * weights).sum() / weights.sum()
