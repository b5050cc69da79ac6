"""Compute how much memory of a GPU the engines of a configuration need.

No GPU has confirmed it yet: compare with "Available KV cache memory" in vLLM's log.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tabulate import tabulate

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.sections import SHARE, gpu_shares
from alignatt_agent.doctor.machine_checks import GIB
from alignatt_agent.doctor.model_sizes import Sizes, UnknownSizeError, sizes_of
from alignatt_agent.engine.options import MAX_CONTEXT, MAX_STREAMS

CONTEXT = 0.6 * GIB
"""Assumed: CUDA context, libraries and graphs of an engine's process, in bytes."""

FREE = 0.05
"""Share of a GPU that no engine gets: other programs, fragments."""

_STEP_TOKENS = 2048
"""vLLM's default of ``max_num_batched_tokens``."""

_TAILS = 2
"""The live tail grows to so many ``speech.max_tail_s`` where the recognizer keeps failing."""

HEADERS = (
    *("computed, GiB", "weights", "activations", "context", "KV cache: one request", "all"),
    *("share at least", "written", "to write"),
)


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of one engine, in bytes; the cache of one longest request, and of all at once."""

    weights: float
    activations: float
    request: float
    requests: float

    @property
    def least(self) -> float:
        """The engine does not start with less."""
        return self.weights + self.activations + CONTEXT + self.request


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Shares of a GPU by role: ``written`` in the configuration, and computed ones.

    ``total`` is its memory in bytes; ``shares`` is empty where the engines do not fit.
    """

    total: float
    needs: dict[str, Need]
    written: dict[str, float]
    shares: dict[str, float]

    @property
    def least(self) -> float:
        """The least that all engines need, as a share of the GPU."""
        return sum(need.least for need in self.needs.values()) / self.total

    def problems(self) -> Iterator[str]:
        """Name the written shares that do not work on this GPU."""
        for role, need in self.needs.items():
            if self.written[role] * self.total < need.least:
                yield (
                    f"models.{role}.engine.{SHARE}: {self.written[role]:g} of "
                    f"{self.total / GIB:.0f} GiB is less than the {need.least / GIB:.1f} GiB "
                    "that it needs"
                )
        if sum(self.written.values()) > 1:
            yield f"the written shares add up to {sum(self.written.values()):.2f}"

    def lines(self) -> Iterator[str]:
        """Format the plan for people."""
        rows = [
            (
                role,
                *(f"{size / GIB:.1f}" for size in (need.weights, need.activations, CONTEXT)),
                *(f"{size / GIB:.2f}" for size in (need.request, need.requests)),
                f"{need.least / self.total:.2f}",
                f"{self.written[role]:g}",
                f"{self.shares[role]:.2f}" if self.shares else "-",
            )
            for role, need in self.needs.items()
        ]
        yield str(tabulate(rows, HEADERS, "plain", disable_numparse=True))
        yield ""
        if not self.shares:
            yield (
                f"does not fit: the engines take {self.least * self.total / GIB:.1f} of "
                f"{self.total * (1 - FREE) / GIB:.1f} GiB; take smaller models"
            )
        else:
            sets = " ".join(
                f"--set models.{role}.engine.{SHARE}={share:.2f}"
                for role, share in self.shares.items()
            )
            yield f"fits; {sets}"
        yield from (f"as written: {problem}" for problem in self.problems())


def plan(config: AgentConfig, total: float) -> MemoryPlan:
    """Compute the memory of all engines on a GPU of ``total`` bytes."""
    needs, problems = {}, []
    for role in config.models.engine_roles:
        model: ModelConfig = getattr(config.models, role)
        seconds = 0 if role == "translation" else _TAILS * config.speech.max_tail_s
        try:
            needs[role] = need(model, sizes_of(model), seconds)
        except UnknownSizeError as error:
            problems.append(f"models.{role}: {error}")
    if problems:
        raise UnknownSizeError("no memory plan: " + "; ".join(problems))
    return MemoryPlan(total, needs, gpu_shares(config.models), _shares(needs, total))


def need(model: ModelConfig, found: Sizes, seconds: float) -> Need:
    """Compute the memory of an engine; ``seconds`` is the longest audio of a request."""
    size, engine = found.value_bytes, model.engine
    tokens = int(engine.get("max_num_batched_tokens", _STEP_TOKENS))
    streams = int(engine.get("max_num_seqs", MAX_STREAMS))
    # A gated layer's two halves and their product, the residual stream, and the sampler's copies
    # of the logits, which are 4 bytes wide.
    step = tokens * (3 * found.inner + 6 * found.hidden) * size + 3 * streams * found.outputs * 4
    audio = 3 * found.largest_frame * seconds * size
    request = int(engine.get("max_model_len", MAX_CONTEXT)) * found.cache * size
    return Need(found.weights * size, step + audio, request, streams * request)


def _shares(needs: dict[str, Need], total: float) -> dict[str, float]:
    """Split a GPU: to each engine the least it needs, and of the rest what its cache can use."""
    least = {role: math.ceil(100 * need.least / total) for role, need in needs.items()}
    left = math.floor(100 * (1 - FREE)) - sum(least.values())
    if left < 0:
        return {}
    wanted = {role: need.requests - need.request for role, need in needs.items()}
    most = sum(wanted.values()) * 100 / total
    part = min(1.0, left / most) if most else 0.0
    return {
        role: (least[role] + math.floor(100 * part * wanted[role] / total)) / 100 for role in needs
    }
