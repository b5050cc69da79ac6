"""The engines that the benchmark compares: vLLM with and without capture, and Transformers."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.models import SHARE
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import engine_environment, on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.start import start_model
from alignatt_agent.types import Prompt
from alignatt_agent.types.engines import DraftRequest, Gate, Readout, TranslationEngine
from lab.bench import fused_attention
from lab.bench.fused_attention import Seam
from lab.reference import Reference
from lab.stand_ins import random_models

CONTEXT = 1024
"""Maximum length of a request, in tokens."""

CONFIG = "micro-low"
"""Configuration whose translation model, head set and gate are measured."""

ENGINES = ((True, False), (False, False), (True, True), (False, True), (False, False))
"""The engines that run side by side, with or without capture, eager or compiled. Two processes of
the same engine differ by a few percent, more than capture costs, so two plain compiled engines show
the noise floor.
"""

SEAMS: tuple[Seam, ...] = ("eager", "sdpa")
"""The Transformers references in the benchmark."""

HEADS = 8
"""Number of captured heads, as in the paper."""

EAGER_HF, FUSED_HF = "transformers eager", "transformers sdpa qk-fast"
PLAIN, AGAIN, IDLE = "vllm plain", "vllm plain, another", "vllm capture, no rows wanted"
CAPTURE, EARLY = "vllm capture", "vllm capture + early stop"

WAYS: tuple[tuple[str, int | Seam, bool, bool], ...] = (
    (f"{IDLE}, compiled", 0, False, False),
    (f"{PLAIN}, compiled", 1, False, False),
    (f"{CAPTURE}, compiled", 0, True, False),
    (f"{AGAIN}, compiled", 4, False, False),
    (f"{EARLY}, compiled", 0, True, True),
    (EAGER_HF, "eager", True, False),
    (f"{CAPTURE}, eager", 2, True, False),
    (f"{PLAIN}, eager", 3, False, False),
    (f"{EARLY}, eager", 2, True, True),
    (FUSED_HF, "sdpa", True, False),
)
"""Contenders: the index of their engine, or the reference; whether they request rows; whether they
are gated. Contenders that share an engine are never adjacent, in any order.
"""

Heads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Size:
    """One of the two models."""

    name: str
    model: ModelConfig
    heads: Heads
    seconds: float
    gpu_share: float = 0.8 / len(ENGINES)


def micro() -> Size:
    """Return the embedded micro model with the heads of its German head set."""
    config = load_config(CONFIG)
    heads = tuple(sorted(load_head_set(config.head_sets["de"]).top(HEADS)))
    model = config.models.translation
    located = model.model_copy(update={"path": str(locate_one(model))})
    return Size("micro", located, heads, seconds=50)


def larger(folder: Path) -> Size:
    """Return the random model of about 200 M parameters, which is written at the first use."""
    sizes = random_models.GEMMA4_200M
    folder = folder / "gemma4-200m"
    if not (folder / "model.safetensors").is_file():
        random_models.write("gemma4", folder, **sizes)
    layers, per_layer = int(sizes["num_hidden_layers"]), 8
    heads = tuple((i * layers // HEADS, 3 * i % per_layer) for i in range(HEADS))
    return Size("larger", ModelConfig(path=str(folder), dtype="float32"), heads, seconds=100)


@dataclass(frozen=True)
class Contender:
    """One method of drafting."""

    name: str
    engine: TranslationEngine
    readout: Readout | None = None
    gated: bool = False  # with a gate that never closes, so that drafts have equal lengths
    served: ServedModel | None = None

    def milliseconds(self, prompt: Prompt, tokens: int) -> float:
        """Draft ``tokens`` tokens; return milliseconds per token, including the prompt's time."""
        gate = open_gate() if self.gated else None
        start = time.perf_counter()
        draft = self.engine.draft(DraftRequest(prompt, tokens, self.readout, gate))
        elapsed = time.perf_counter() - start
        if len(draft.token_ids) != tokens:
            raise RuntimeError(f"{self.name} drafted {len(draft.token_ids)} of {tokens} tokens")
        return 1000 * elapsed / tokens


@cache
def open_gate() -> Gate:
    """Return the default gate with a frontier that no token crosses."""
    gate = load_config(CONFIG).policy.alone().gate(2 * CONTEXT)
    assert gate is not None
    return gate


@contextmanager
def contenders(
    size: Size, engines: Sequence[int] = range(len(ENGINES)), seams: Sequence[Seam] = SEAMS
) -> Iterator[list[Contender]]:
    """Start engines, by index in ``ENGINES``, and references; no token ends a turn."""
    options: dict[str, Any] = {"max_model_len": CONTEXT}
    if not on_cpu():
        options[SHARE] = size.gpu_share
    started: list[ServedModel] = []

    def start(place: int) -> tuple[DraftEngine, ServedModel]:
        capture, eager = ENGINES[place]
        heads = size.heads if capture else ()
        served = start_model("translation", size.model, heads, enforce_eager=eager, **options)
        started.append(served)
        return DraftEngine(served, heads, frozenset()), served

    try:
        # On a GPU, engines start one after another, because each measures the free memory.
        with engine_environment(), ThreadPoolExecutor(len(engines) if on_cpu() else 1) as threads:
            pairs = zip(engines, threads.map(start, engines), strict=True)
            by_source: dict[int | Seam, tuple[TranslationEngine, ServedModel | None]] = dict(pairs)
        for seam in seams:
            by_source[seam] = (_reference(size, seam), None)
        readout = Readout(size.heads, "predicting")
        listed = []
        for name, source, with_rows, gated in WAYS:
            if source not in by_source:
                continue
            engine, served = by_source[source]
            contender = Contender(name, engine, readout if with_rows else None, gated, served)
            listed.append(contender)
        yield listed
    finally:
        for served in started:  # in parallel, because each takes seconds
            served.stop()
        for served in started:
            served.shutdown()


def _reference(size: Size, seam: Seam) -> Reference:
    """Load the model into this process, on the device that vLLM uses."""
    device = "cpu" if on_cpu() else "cuda"
    engine = fused_attention.ENGINES[seam](
        size.model.path,
        dtype=size.model.dtype,
        device=device,
        random=size.model.engine.get("load_format") == "dummy",
    )
    engine.stops = frozenset()
    return engine


def threads() -> int:
    """Return the number of threads that an engine, and thus every contender, uses."""
    with engine_environment():
        return int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads()
