"""Shared parts of the three micro trainings: seeding, schedule, progress, resuming."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

SAVE_EVERY_S = 180.0
BLOCK = 8
"""Batches that are drawn at once."""
COMPILED_FROM_STEPS = 1000

# Each batch length has its own kernels; oneDNN keeps 1,024 of them, some 4 GB.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "100")

Step = Callable[[int], tuple[torch.Tensor, dict[str, float]]]


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


def seed_everything(seed: int) -> None:
    """Seed Python and torch; denormals, which slow the CPU down, count as zero."""
    torch.set_flush_denormal(True)
    random.seed(seed)
    torch.manual_seed(seed)


def compile_layers(model: nn.Module, kind: type[nn.Module], plan: Plan) -> None:
    """Fuse the element-wise work of a model's layers: 0.65 of the time, two minutes to compile.

    Short trials and machines without a C++ compiler do without.
    """
    if plan.steps >= COMPILED_FROM_STEPS and shutil.which("g++"):
        for module in model.modules():
            if isinstance(module, kind):
                module.compile(dynamic=True)


def fit(model: nn.Module, step: Step, plan: Plan, work: Path) -> None:
    """Run AdamW, or resume an interrupted run from ``work/TITLE.pt``.

    ``step`` maps the step number to the loss and to figures for the progress bar and
    ``TITLE.log.jsonl``. Its draws must depend on the number alone: then an interrupted training
    ends in the same weights.
    """
    work.mkdir(parents=True, exist_ok=True)
    optimizer = _optimizer(model, plan)
    saved = work / f"{plan.title}.pt"
    begin, running = _resume(saved, model, optimizer, plan)
    at = time.monotonic()
    bar = tqdm(range(begin, plan.steps), plan.title, plan.steps, initial=begin, mininterval=5)
    for number in bar:
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(number)
        torch.manual_seed(plan.seed + number)
        # 0.68 of the time, where the processor computes in it; weights stay in float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
            loss, figures = step(number)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for key, value in figures.items():
            running[key] = value if number == 0 else 0.95 * running[key] + 0.05 * value
        if number % 10 == 0:
            bar.set_postfix({k: f"{v:.3f}" for k, v in running.items()})
        last = number == plan.steps - 1
        if number % 50 == 0 or last:
            with (work / f"{plan.title}.log.jsonl").open("a") as stream:
                stream.write(json.dumps({"step": number, **running}) + "\n")
        if last or time.monotonic() - at > SAVE_EVERY_S:
            _save(saved, model, optimizer, plan, number + 1, running)
            at = time.monotonic()


def _optimizer(model: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.01},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=plan.peak_rate,
        betas=(0.9, 0.98),
    )


def _save(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: Plan,
    done: int,
    running: dict[str, float],
) -> None:
    """Write the state of a training; an interruption leaves the previous file intact."""
    content = {
        "plan": asdict(plan),
        "done": done,
        "running": running,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    draft = path.with_suffix(".part")
    torch.save(content, draft)
    draft.replace(path)


def _resume(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan
) -> tuple[int, dict[str, float]]:
    if not path.is_file():
        return 0, {}
    content = torch.load(path, weights_only=True)
    if content["plan"] != asdict(plan):
        raise ResumeError(
            f"{path} is of the training {content['plan']}, not {asdict(plan)}: delete it, or give "
            "another --work"
        )
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    return content["done"], content["running"]


def trained(work: Path, title: str, part: str) -> dict[str, torch.Tensor]:
    """Return the weights of one part of a model whose training in ``work`` is finished."""
    path = work / f"{title}.pt"
    content = torch.load(path, weights_only=True) if path.is_file() else None
    if not content or content["done"] < content["plan"]["steps"]:
        raise ResumeError(
            f"{path} is no finished training: make the {title} first, with this --work"
        )
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): weight
        for name, weight in content["model"].items()
        if name.startswith(prefix)
    }


def guide(
    total: torch.Tensor,
    attentions: Any,
    heads: Sequence[tuple[int, int]],
    item: Any,
    query: Any,
    columns: torch.Tensor,
) -> torch.Tensor:
    """Add the mean -log attention mass of queries on their ``columns`` to ``total``, per head."""
    for layer, head in heads:
        mass = (attentions[layer][item, head, query] * columns).sum(-1)
        total = total - (mass + 1e-6).log().mean()
    return total


def pad(rows: list[list[int]], value: int) -> torch.Tensor:
    """Right-pad integer rows to one tensor ``[batch, longest]``."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
