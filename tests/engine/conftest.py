"""Real vLLM engines on tiny random checkpoints, started once for all engine tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.types import Draft, Prompt, Readout

if TYPE_CHECKING:
    from alignatt_agent.cascade import Engines

# Layers 0 and 1 see a sliding window and 2 everything; 4 (sliding) and 5 (full) have no keys of
# their own. Query heads 0-3 share one key head, 4-7 the other.
HEADS = ((0, 1), (1, 6), (2, 3), (2, 5), (4, 0), (4, 7), (5, 2), (5, 6))


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from alignatt_agent.checks import published_speech, random_models

    root = tmp_path_factory.mktemp("checkpoints")
    random_models.write("gemma4", root / "gemma4")
    published_speech.write_recognizer(root / "asr", seed=1)
    published_speech.write_aligner(root / "aligner", seed=2)
    return root


@pytest.fixture(scope="session")
def models(checkpoints: Path) -> ModelsConfig:
    # Small blocks and token budgets, so that prefixes are shared and prompts are cut in chunks.
    engine = {"block_size": 32, "max_num_batched_tokens": 128}
    return ModelsConfig(
        asr=ModelConfig(path=str(checkpoints / "asr"), dtype="float32"),
        aligner=ModelConfig(path=str(checkpoints / "aligner"), dtype="float32"),
        translation=ModelConfig(path=str(checkpoints / "gemma4"), dtype="float32", engine=engine),
    )


@pytest.fixture(scope="session", autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    if "alignatt_agent.cascade" in sys.modules:
        sys.modules["alignatt_agent.cascade"].shutdown()


@pytest.fixture
def engines(models: ModelsConfig) -> Engines:
    """The engines; started by the first test that asks, and again where a test killed one."""
    from alignatt_agent.cascade import load_engines

    return load_engines(models, HEADS)


@dataclass(frozen=True)
class Expected:
    """Rows that Transformers computes for a prompt and its draft, one tensor per column kind."""

    source: np.ndarray
    prompt: np.ndarray
    suffix: np.ndarray


@pytest.fixture(scope="session")
def reference(checkpoints: Path) -> Callable[[Prompt, Draft, Readout], Expected]:
    import torch
    from transformers import Gemma4ForCausalLM

    model = Gemma4ForCausalLM.from_pretrained(
        checkpoints / "gemma4", attn_implementation="eager"
    ).eval()

    @torch.inference_mode()
    def rows(prompt: Prompt, draft: Draft, readout: Readout) -> Expected:
        length, count = len(prompt.token_ids), len(draft.token_ids)
        ids = torch.tensor([[*prompt.token_ids, *draft.token_ids]])
        attention = model(ids, output_attentions=True).attentions
        first = length if readout.row == "emitted" else length - 1
        full = torch.stack(
            [attention[layer][0, head, first : first + count] for layer, head in readout.heads], 1
        ).numpy()
        source = full[..., prompt.source_start : prompt.source_end]
        return Expected(
            source, full[..., :length].sum(-1) - source.sum(-1), full[..., length:].sum(-1)
        )

    return rows


def make_prompt(seed: int, length: int, start: int, width: int, shared: int = 0) -> Prompt:
    """Build a prompt of random ids; prompts with the same ``shared`` begin with equal ids."""
    head = np.random.default_rng(1000).integers(6, 500, shared)
    tail = np.random.default_rng(seed).integers(6, 500, length - shared)
    ids = tuple(int(i) for i in (*head, *tail))
    return Prompt(ids, start, tuple(range(width)))
