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
    steps, rate, seed = FURTHER if further else (STEPS, RATE, SEED)
    plan = training.Plan("translation", training.scaled(steps, scale), rate, seed)
    training.seed_everything(plan.seed)
    config = Gemma4TextConfig(**training.MODELS["translation"])
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config)
    if further:
        model.load_state_dict(Gemma4ForCausalLM.from_pretrained(folder).state_dict())
    maker = ExampleMaker(tokenizer, plan.seed)

    def step(number: int) -> Losses:
        rows = maker.batch(number, BATCH)
        out = model.model(**training.inputs([row.ids for row in rows]))
        emitted = [
            (i, place, guide)
            for i, row in enumerate(rows)
            for place, guide in zip(row.places, row.guides, strict=True)
            if guide
        ]
        predicting: list[Guide] = [(i, query - 1, guide) for i, query, guide in emitted]
        guided = (PREDICTING_HEADS, predicting), (EMITTED_HEADS, emitted)
        named = [
            (i, place - 1, name)
            for i, row in enumerate(rows)
            for place, name in zip(row.places, row.names, strict=True)
            if name
        ]
        return training.weighted(
            lm=(1.0, _language_loss(model, out.last_hidden_state, rows)),
            guide=(GUIDE_WEIGHT, training.guide_loss(out.attentions, *guided)),
            names=(GUIDE_WEIGHT, training.guide_loss(out.attentions, (NAME_HEADS, named))),
        )

    model.train()
    training.compile_layers(model, Gemma4TextDecoderLayer, plan)
    training.fit(model, step, plan, work)
    # As in the real checkpoint.
    ids = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(do_sample=False, **ids)
    model.save_pretrained(folder)


def _language_loss(model: Any, hidden: torch.Tensor, rows: list[Example]) -> torch.Tensor:
    places = [(i, place) for i, row in enumerate(rows) for place in row.places]
    batch, position = torch.tensor(places).T
    wanted = torch.tensor([rows[i].ids[t] for i, t in places])
    weights = torch.tensor([weight for row in rows for weight in row.weights])
    logits = model.lm_head(hidden[batch, position - 1])
    loss = functional.cross_entropy(logits, wanted, reduction="none")
    return (loss * weights).sum() / weights.sum()
