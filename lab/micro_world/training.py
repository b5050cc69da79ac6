"""What the three micro trainings share: seeding, schedule, progress, going on after a break."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

SAVE_EVERY_S = 180.0
COMPILED_FROM_STEPS = 1000

# Every length of a batch makes kernels of its own; oneDNN keeps 1,024 of them, some 4 GB.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "100")

Step = Callable[[int], tuple[torch.Tensor, dict[str, float]]]


class ResumeError(ValueError):
    """A saved training is not the one that was asked for."""


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

    Trials are over before that pays; without a C++ compiler the layers run as they are.
    """
    if plan.steps >= COMPILED_FROM_STEPS and shutil.which("g++"):
        for module in model.modules():
            if isinstance(module, kind):
                module.compile(dynamic=True)


def fit(model: nn.Module, step: Step, plan: Plan, work: Path) -> None:
    """Run AdamW, or go on where an earlier run was stopped.

    What a step draws must depend on its number alone: then a training that was interrupted ends in
    the same weights. ``work`` receives ``TITLE.pt``, from which it goes on, and the running figures
    as ``TITLE.log.jsonl``.

    Args:
        model: what is trained.
        step: maps the step number to the loss and figures for the progress bar.
        plan: how long and how fast.
        work: folder that outlives the run.

    Raises:
        ResumeError: ``work`` holds another training of that title.
    """
    work.mkdir(parents=True, exist_ok=True)
    optimiser = _optimiser(model, plan)
    saved = work / f"{plan.title}.pt"
    begin, running = _resume(saved, model, optimiser, plan)
    at = time.monotonic()
    bar = tqdm(range(begin, plan.steps), plan.title, plan.steps, initial=begin, mininterval=5)
    for number in bar:
        for group in optimiser.param_groups:
            group["lr"] = plan.rate(number)
        torch.manual_seed(plan.seed + number)
        # 0.68 of the time, where the processor computes in it; weights stay in float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
            loss, figures = step(number)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        for key, value in figures.items():
            running[key] = value if number == 0 else 0.95 * running[key] + 0.05 * value
        if number % 10 == 0:
            bar.set_postfix({k: f"{v:.3f}" for k, v in running.items()})
        last = number == plan.steps - 1
        if number % 50 == 0 or last:
            with (work / f"{plan.title}.log.jsonl").open("a") as stream:
                stream.write(json.dumps({"step": number, **running}) + "\n")
        if last or time.monotonic() - at > SAVE_EVERY_S:
            _save(saved, model, optimiser, plan, number + 1, running)
            at = time.monotonic()


def _optimiser(model: nn.Module, plan: Plan) -> torch.optim.Optimizer:
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
    optimiser: torch.optim.Optimizer,
    plan: Plan,
    done: int,
    running: dict[str, float],
) -> None:
    """Write everything that the next step needs; a stop in between leaves the last file whole."""
    content = {
        "plan": asdict(plan),
        "done": done,
        "running": running,
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    draft = path.with_suffix(".part")
    torch.save(content, draft)
    draft.replace(path)


def _resume(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, plan: Plan
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
    optimiser.load_state_dict(content["optimiser"])
    return content["done"], content["running"]


def trained(work: Path, title: str, part: str) -> dict[str, torch.Tensor]:
    """Return the weights of one part of a model, from the end of its training.

    Raises:
        ResumeError: it was not trained to its end in ``work``.
    """
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


def pad(rows: list[list[int]], value: int) -> torch.Tensor:
    """Right-pad integer rows to one tensor ``[batch, longest]``."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
