"""What the three micro trainings share: seeding, schedule, progress."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm


def seed_everything(seed: int) -> None:
    """Seed Python and torch; denormals, which slow the CPU down, count as zero."""
    torch.set_flush_denormal(True)
    random.seed(seed)
    torch.manual_seed(seed)


def fit(
    parameters: Iterable[nn.Parameter],
    step: Callable[[int], tuple[torch.Tensor, dict[str, float]]],
    *,
    steps: int,
    peak_rate: float,
    title: str,
    log: Path | None = None,
) -> None:
    """Run AdamW with warm-up over the first 5 % and cosine decay to 2 % of the peak rate.

    Args:
        parameters: what is trained.
        step: maps the step number to the loss and figures for the progress bar.
        steps: number of updates.
        peak_rate: highest learning rate.
        title: label of the progress bar.
        log: JSON-lines file that receives the running figures every 50 steps.
    """
    trained = [p for p in parameters if p.requires_grad]
    decay = [p for p in trained if p.dim() > 1]
    plain = [p for p in trained if p.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=peak_rate,
        betas=(0.9, 0.98),
    )
    warm = max(1, steps // 20)
    running: dict[str, float] = {}
    bar = tqdm(range(steps), desc=title, mininterval=5)
    for number in bar:
        rate = min(1.0, (number + 1) / warm)
        rate *= 0.02 + 0.98 * 0.5 * (
            1 + math.cos(math.pi * max(0, number - warm) / max(1, steps - warm))
        )
        for group in optimiser.param_groups:
            group["lr"] = peak_rate * rate
        loss, figures = step(number)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        for key, value in figures.items():
            running[key] = value if number == 0 else 0.95 * running[key] + 0.05 * value
        if number % 10 == 0:
            bar.set_postfix({k: f"{v:.3f}" for k, v in running.items()})
        if log and (number % 50 == 0 or number == steps - 1):
            with log.open("a") as stream:
                stream.write(json.dumps({"step": number, **running}) + "\n")


def pad(rows: list[list[int]], value: int) -> torch.Tensor:
    """Right-pad integer rows to one tensor ``[batch, longest]``."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
