"""Shared parts of the training of the three micro models: seeds, schedule, progress, resuming."""

import math
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
import yaml
from torch import nn
from tqdm import tqdm

T = TypeVar("T")
MODELS = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))
SAVE_EVERY_S = 180.0
BLOCK = 8
"""Number of batches that are drawn together."""
COMPILED_FROM_STEPS = 1000

# Each batch length has separate kernels; oneDNN keeps 1,024 kernels, about 4 GB.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "100")

Losses = tuple[torch.Tensor, dict[str, float]]
"""The minimized loss, and figures for the progress bar."""
Heads = tuple[tuple[int, int], ...]
"""Layers and heads."""
Guide = tuple[int, int, list[int]]
"""A row of the batch, a query in it, and the positions that it should attend to."""


class ResumeError(ValueError):
    """A saved training differs from the requested one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A training: its name, number of updates, peak learning rate, and the seed of its steps."""

    title: str
    steps: int
    peak_rate: float
    seed: int

    def rate(self, number: int) -> float:
        """Learning rate of a step: warm-up over 5 %, then cosine decay to 2 % of the peak."""
        warm = max(1, self.steps // 20)
        done = max(0, number - warm) / max(1, self.steps - warm)
        decayed = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))
        return self.peak_rate * min(1.0, (number + 1) / warm) * decayed


class Maker(Generic[T]):
    """Draws batches of training examples; a batch depends on its number alone."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._block = lru_cache(maxsize=1)(self._draw_block)

    def batch(self, number: int, size: int) -> list[T]:
        """Return batch ``number`` of ``size`` examples of similar length, which saves padding."""
        return self._block(number // BLOCK, size)[number % BLOCK]

    def _draw_block(self, number: int, size: int) -> list[list[T]]:
        seed = f"{self._seed} {number}"
        rng = random.Random(seed)
        drawn = sorted(self._drawn(seed, rng, BLOCK * size), key=self._length)
        batches = [drawn[i : i + size] for i in range(0, len(drawn), size)]
        # In sorted order, the examples would grow longer through every block.
        rng.shuffle(batches)
        return batches

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[T]:
        raise NotImplementedError

    def _length(self, example: T) -> int:
        raise NotImplementedError


def scaled(number: int, scale: float, least: int = 2) -> int:
    """Return a number of steps or sentences for a trial."""
    return max(least, round(number * scale))


def seed_everything(seed: int) -> None:
    """Seed Python and torch; treat denormals, which slow down the CPU, as zero."""
    torch.set_flush_denormal(True)
    random.seed(seed)
    torch.manual_seed(seed)


def compile_layers(model: nn.Module, kind: type[nn.Module], plan: Plan) -> None:
    """Fuse the element-wise operations of a model's layers.

    A step then takes 0.65 of the time, after two minutes of compiling. Short trials and machines
    without a C++ compiler skip this.
    """
    if plan.steps >= COMPILED_FROM_STEPS and shutil.which("g++"):
        for module in model.modules():
            if isinstance(module, kind):
                module.compile(dynamic=True)


def fit(model: nn.Module, step: Callable[[int], Losses], plan: Plan, work: Path) -> None:
    """Run AdamW, or resume an interrupted run from ``work/TITLE.pt``.

    ``step`` maps the step number to the loss and to figures for the progress bar. Its draws must
    depend only on the number, so that an interrupted training ends with the same weights.
    """
    work.mkdir(parents=True, exist_ok=True)
    run = _Run(model, plan, work / f"{plan.title}.pt")
    begin = run.resume()
    saved_at = time.monotonic()
    bar = tqdm(range(begin, plan.steps), plan.title, plan.steps, initial=begin, mininterval=5)
    for number in bar:
        figures = run.update(number, step)
        if number % 10 == 0:
            texts = {name: f"{value:.3f}" for name, value in figures.items()}
            bar.set_postfix(texts)
        finished = number == plan.steps - 1
        if finished or time.monotonic() - saved_at > SAVE_EVERY_S:
            run.save(number + 1)
            saved_at = time.monotonic()


class _Run:
    """A training with its optimizer; ``saved`` is its checkpoint."""

    def __init__(self, model: nn.Module, plan: Plan, saved: Path) -> None:
        self._model, self._plan, self._saved = model, plan, saved
        matrices, vectors = [], []
        for parameter in model.parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dim() > 1:
                matrices.append(parameter)
            else:
                vectors.append(parameter)
        # Biases and the scales of norms do not decay.
        groups = [
            {"params": matrices, "weight_decay": 0.01},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._optimizer = torch.optim.AdamW(groups, lr=plan.peak_rate, betas=(0.9, 0.98))

    def update(self, number: int, step: Callable[[int], Losses]) -> dict[str, float]:
        """Run one step; return its figures."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._plan.rate(number)
        # The draws of a step depend on its number alone, so a resumed training repeats them.
        torch.manual_seed(self._plan.seed + number)
        # A step takes 0.68 of the time where the processor computes in bfloat16. Weights stay in
        # float32.
        bfloat16 = torch.cpu._is_avx512_bf16_supported()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss, figures = step(number)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        return figures

    def save(self, done: int) -> None:
        """Write the state; an interruption leaves the previous file intact."""
        content = {
            "plan": asdict(self._plan),
            "done": done,
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        draft = self._saved.with_suffix(".part")
        torch.save(content, draft)
        draft.replace(self._saved)

    def resume(self) -> int:
        """Load the saved state if there is one; return the number of finished steps."""
        if not self._saved.is_file():
            return 0
        content = torch.load(self._saved, weights_only=True)
        plan = asdict(self._plan)
        if content["plan"] != plan:
            raise ResumeError(
                f"{self._saved} is for the training {content['plan']}, not {plan}: delete it, or "
                "give another --work"
            )
        self._model.load_state_dict(content["model"])
        self._optimizer.load_state_dict(content["optimizer"])
        return int(content["done"])


def weighted(**losses: tuple[float, torch.Tensor]) -> Losses:
    """Return the weighted sum of losses, and each of them for the progress bar."""
    total = torch.zeros(())
    figures = {}
    for name, (weight, loss) in losses.items():
        total = total + weight * loss
        figures[name] = loss.item()
    return total, figures


def guide_loss(attentions: Any, *guided: tuple[Heads, list[Guide]]) -> torch.Tensor:
    """Return the mean -log attention mass of queries on their positions, over guided heads.

    Args:
        attentions: for each layer, attention weights ``[batch, heads, queries, keys]``.
        guided: heads and their guides; the loss of heads without a guide is 0.
    """
    total = torch.zeros(())
    head_count = 0
    for heads, guides in guided:
        head_count += len(heads)
        if not guides:
            continue
        columns = torch.zeros(len(guides), attentions[0].shape[-1])
        for number, (_, _, positions) in enumerate(guides):
            columns[number, positions] = 1.0
        rows, queries = torch.tensor([guide[:2] for guide in guides]).T
        for layer, head in heads:
            mass = (attentions[layer][rows, head, queries] * columns).sum(-1)
            # The logarithm of a mass of 0 would be infinite.
            total = total - (mass + 1e-6).log().mean()
    return total / head_count


def inputs(rows: list[list[int]]) -> dict[str, Any]:
    """Return ids of sequences as the arguments of a model whose attention is guided."""
    ones = [[1] * len(row) for row in rows]
    return {
        "input_ids": pad(rows, 0),
        "attention_mask": pad(ones, 0),
        "output_attentions": True,
        "use_cache": False,
    }


def pad(rows: list[list[int]], value: int) -> torch.Tensor:
    """Right-pad integer rows to one tensor ``[batch, longest]``."""
    width = max(map(len, rows))
    padded = [row + [value] * (width - len(row)) for row in rows]
    return torch.tensor(padded)
