"""The contenders of the bench, and the vLLM engines behind them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from alignatt_agent.checks import random_models
from alignatt_agent.checks.bench_worker import EXTENSION
from alignatt_agent.checks.doctor_facts import free_memory, weight_bytes
from alignatt_agent.checks.doctor_machine import GIB
from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment, on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.transformers_engine import Seam, TransformersEngine
from alignatt_agent.policy import AlignAtt, build_policy
from alignatt_agent.types import Gate, Prompt, Readout, TranslationEngine

CONTEXT = 1024
"""Longest request, in tokens."""

CONFIG = "micro-low"
"""Configuration whose translation model, head set and gate are measured."""

STREAMS = 16
"""Most concurrent streams."""

HEADS = 8
"""How many heads are captured, as in the paper."""

TOGETHER = 4
"""Engines that run side by side: plain and capturing, eager and compiled."""

_NEVER_ENDS: frozenset[int] = frozenset()

Heads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Size:
    """One of the two models.

    Attributes:
        name: ``"micro"`` or ``"larger"``.
        model: the checkpoint.
        layers: decoder layers.
        heads_per_layer: query heads of each.
        heads: the captured ones.
        trained: whether its gate means anything.
    """

    name: str
    model: ModelConfig
    layers: int
    heads_per_layer: int
    heads: Heads
    trained: bool

    @property
    def all_heads(self) -> Heads:
        """Every head of the model."""
        return tuple((a, b) for a in range(self.layers) for b in range(self.heads_per_layer))


def micro() -> Size:
    """Return the embedded micro model with the heads of its German head set."""
    config = load_config(CONFIG)
    head_set = load_head_set(config.head_sets["de"])
    shape = head_set.num_layers, head_set.num_heads
    heads = tuple(sorted(head_set.top(HEADS)))
    model = config.models.translation
    located = model.model_copy(update={"path": str(locate_one(model))})
    return Size("micro", located, *shape, heads, trained=True)


def larger(folder: Path) -> Size:
    """Return the random-weight model of about 200 M parameters; it is written on first use."""
    folder = folder / "gemma4-200m"
    if not (folder / "model.safetensors").is_file():
        random_models.write("gemma4", folder, **random_models.GEMMA4_200M)
    layers, per_layer = int(random_models.GEMMA4_200M["num_hidden_layers"]), 8
    heads = tuple((i * layers // HEADS, 3 * i % per_layer) for i in range(HEADS))
    model = ModelConfig(path=str(folder), dtype="float32")
    return Size("larger", model, layers, per_layer, heads, trained=False)


def lacking_memory(size: Size) -> str:
    """Say what is missing when caches and weights alone exceed main memory; else nothing.

    A machine that swaps measures its disk.
    """
    weights = weight_bytes(size.model)
    need = TOGETHER * (GIB + weights) + 2 * weights
    free = free_memory()
    if not on_cpu() or need <= free:
        return ""
    return (
        f"the {size.name} model needs {need / GIB:.1f} GiB of free memory for {TOGETHER} engines "
        f"and Transformers, {free / GIB:.1f} are free; end other programs"
    )


@dataclass
class Running:
    """A started vLLM engine.

    Attributes:
        model: the engine.
        drafts: the product's front of it; no token ends a turn.
        heads: the captured heads.
        pids: its processes.
    """

    model: ServedModel
    drafts: DraftEngine
    heads: Heads
    pids: list[int]

    def describe(self) -> dict[str, Any]:
        """Return what its first worker says about itself; nothing without a capture worker."""
        if not self.heads:
            return {}
        found: dict[str, Any] = self.model.ask_workers("alignatt_describe")[0]
        return found

    def resident_bytes(self) -> tuple[int, int]:
        """Return the current and the highest resident memory of its processes."""
        current = sum(_status(pid, "VmRSS") for pid in self.pids)
        return current, sum(_status(pid, "VmHWM") for pid in self.pids)

    def cpu_seconds(self) -> float:
        """Return the processor time that its processes have used."""
        return sum(_cpu_seconds(pid) for pid in self.pids)


@contextlib.contextmanager
def running(size: Size, heads: Sequence[tuple[int, int]], eager: bool) -> Iterator[Running]:
    """Start an engine like the product does, and end it.

    Args:
        size: which model.
        heads: heads to capture; none for an engine without a capture worker.
        eager: without ``torch.compile`` and graphs.
    """
    engine: dict[str, Any] = {
        "max_model_len": CONTEXT,
        "max_num_seqs": 2 * STREAMS,
        "enforce_eager": eager,
    }
    if heads:
        engine["worker_extension_cls"] = EXTENSION
    if not on_cpu():
        engine["gpu_memory_utilization"] = 0.8 / TOGETHER
    config = size.model.model_copy(update={"engine": engine})
    with engine_environment():
        arguments = engine_arguments("translation", config, heads)
        served = ServedModel(f"{size.name} model", arguments)
    try:
        yield Running(served, DraftEngine(served, heads, _NEVER_ENDS), tuple(heads), served.pids)
    finally:
        served.shutdown()


def threads() -> int:
    """Return the number of threads that an engine computes with, and every contender too."""
    with engine_environment():
        return int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads()


def prompt_tokenizer() -> Any:
    """Return the tokenizer of the micro model: both models draft after the same ids."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(locate_one(micro().model))


def reference(size: Size, seam: Seam) -> TransformersEngine:
    """Load the model into this process, on the device that vLLM uses; no token ends a turn."""
    device = "cpu" if on_cpu() else "cuda"
    engine = TransformersEngine(size.model.path, dtype=size.model.dtype, seam=seam, device=device)
    engine.stops = _NEVER_ENDS
    return engine


@dataclass(frozen=True)
class Contender:
    """One way to draft.

    Attributes:
        name: as in the table.
        engine: drafts.
        readout: rows that every draft returns; ``None`` returns none.
        gated: whether the engine runs the gate while it drafts; the bench's gate never closes,
            so that drafts stay equally long.
        owner: the vLLM engine behind it.
    """

    name: str
    engine: TranslationEngine
    readout: Readout | None = None
    gated: bool = False
    owner: Running | None = None

    def cpu_seconds(self) -> float:
        """Return the processor time used so far by whatever computes."""
        return self.owner.cpu_seconds() if self.owner else time.process_time()

    def milliseconds(self, prompt: Prompt, tokens: int) -> float:
        """Draft ``tokens`` tokens and return milliseconds per token, the prompt's included.

        Raises:
            RuntimeError: the draft is shorter.
        """
        gate = open_gate(prompt) if self.gated else None
        start = time.perf_counter()
        draft = self.engine.draft(prompt, tokens, self.readout, gate)
        elapsed = time.perf_counter() - start
        if len(draft.token_ids) != tokens:
            raise RuntimeError(f"{self.name} drafted {len(draft.token_ids)} of {tokens} tokens")
        return 1000 * elapsed / tokens


@cache
def maintained_policy() -> AlignAtt:
    """Return the gate of the maintained configuration, for drafts one by one."""
    policy = build_policy(load_config(CONFIG).policy, single=True)
    assert isinstance(policy, AlignAtt)
    return policy


def open_gate(prompt: Prompt) -> Gate:
    """Return the maintained gate with a frontier that nothing crosses."""
    return maintained_policy().gate(len(prompt.token_word) + CONTEXT)


def _status(pid: int, key: str) -> int:
    """Return an entry of ``/proc/PID/status`` in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
