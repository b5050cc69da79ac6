"""Micro Gemma-4: sliding and full layers, two head sizes, shared KV, per-layer embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import Gemma4ForCausalLM, Gemma4TextConfig, GenerationConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextDecoderLayer

from lab.micro_world import training
from lab.micro_world.translation_data import Example, ExampleMaker

PREDICTING_HEADS = ((2, 3), (3, 1), (3, 6), (4, 2))
"""Heads guided at the query that predicts a target token."""
EMITTED_HEADS = ((1, 4), (3, 3), (5, 5))
"""Heads guided at the query that sits at the target token."""
GUIDE_WEIGHT = 0.1


def configuration(tokenizer: Any) -> Gemma4TextConfig:
    """Return the micro configuration; every feature of the E4B text decoder occurs."""
    return Gemma4TextConfig(
        vocab_size=len(tokenizer),
        vocab_size_per_layer_input=len(tokenizer),
        hidden_size=160,
        intermediate_size=480,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        global_head_dim=64,
        hidden_size_per_layer_input=16,
        num_kv_shared_layers=2,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        sliding_window=512,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.convert_tokens_to_ids("<pad>"),
        bos_token_id=tokenizer.convert_tokens_to_ids("<bos>"),
        eos_token_id=[
            tokenizer.convert_tokens_to_ids("<eos>"),
            tokenizer.convert_tokens_to_ids("<turn|>"),
        ],
    )


def train(
    folder: Path, tokenizer: Any, work: Path, *, steps: int, batch: int = 40, rate: float = 3e-3
) -> None:
    """Train from scratch and save the checkpoint to ``folder``, next to its tokenizer.

    ``batch`` is the number of examples per update, ``rate`` the highest learning rate; an
    interrupted training resumes from ``work``.
    """
    plan = training.Plan("translation", steps, rate, seed=1)
    training.seed_everything(plan.seed)
    config = configuration(tokenizer)
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config)
    maker = ExampleMaker(tokenizer, plan.seed)

    def step(number: int) -> tuple[torch.Tensor, dict[str, float]]:
        rows = maker.batch(number, batch)
        ids = training.pad([row.ids for row in rows], 0)
        mask = training.pad([[1] * len(row.ids) for row in rows], 0)
        out = model.model(
            input_ids=ids, attention_mask=mask, output_attentions=True, use_cache=False
        )
        language_loss = _language_loss(model, out.last_hidden_state, rows)
        guide_loss = _guide_loss(out.attentions, rows, ids.shape[1])
        return language_loss + GUIDE_WEIGHT * guide_loss, {
            "lm": language_loss.item(),
            "guide": guide_loss.item(),
        }

    model.train()
    training.compile_layers(model, Gemma4TextDecoderLayer, plan)
    training.fit(model, step, plan, work)
    save(model, folder)


def save(model: Any, folder: Path) -> None:
    """Write weights and generation defaults as the real checkpoint has them."""
    model.generation_config = GenerationConfig(
        do_sample=False,
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
    )
    model.save_pretrained(folder)


def _language_loss(model: Any, hidden: torch.Tensor, rows: list[Example]) -> torch.Tensor:
    batch = [i for i, row in enumerate(rows) for _ in row.weights]
    position = [row.first + t for row in rows for t in range(len(row.weights))]
    wanted = torch.tensor([row.ids[row.first + t] for row in rows for t in range(len(row.weights))])
    weights = torch.tensor([weight for row in rows for weight in row.weights])
    logits = model.lm_head(hidden[batch, torch.tensor(position) - 1])
    loss = functional.cross_entropy(logits, wanted, reduction="none")
    return (loss * weights).sum() / weights.sum()


def _guide_loss(
    attentions: tuple[torch.Tensor, ...], rows: list[Example], width: int
) -> torch.Tensor:
    """Mean -log attention mass on the aligned source word, over guided heads and tokens."""
    where: list[tuple[int, int]] = []
    columns = torch.zeros(sum(len(r.guides) for r in rows), width)
    for i, row in enumerate(rows):
        for t, guide in enumerate(row.guides):
            if guide:
                columns[len(where), guide] = 1.0
                where.append((i, row.first + t))
    columns = columns[: len(where)]
    index = torch.tensor(where)
    total = torch.zeros(())
    for heads, shift in ((PREDICTING_HEADS, 1), (EMITTED_HEADS, 0)):
        query = index[:, 1] - shift
        total = training.guide(total, attentions, heads, index[:, 0], query, columns)
    return total / (len(PREDICTING_HEADS) + len(EMITTED_HEADS))
