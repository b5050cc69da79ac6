"""Compute the GPU memory that the engines of a configuration need, and their shares.

The plan has not been verified on a GPU. The actual size of vLLM's cache is printed when engines
start.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, ModelsConfig, load_config
from alignatt_agent.config.checkpoints import is_embedded
from alignatt_agent.config.machine import GIB
from alignatt_agent.config.models import AUTO, SHARE, written_shares
from alignatt_agent.config.resources import known_resources
from alignatt_agent.engine.model_sizes import UnknownSizeError, sizes_of
from alignatt_agent.engine.options import MAX_CONTEXT, MAX_STREAMS, window_of

CONTEXT = 0.6 * GIB
"""Assumed size of the CUDA context, libraries and graphs in an engine's process, in bytes."""

TOWER = 0.7 * GIB
"""Assumed bytes of a transcribing translation model's audio tower, including activations."""

FREE = 0.05
"""Share of GPU memory that is left free for other programs and fragmentation."""

LEAST_CONTEXT = MAX_CONTEXT // 2
"""Context in tokens that ``auto`` uses instead of ``MAX_CONTEXT`` if memory is short."""

_STEP_TOKENS, _GRAIN, _TAILS = 2048, 1000, 2
"""vLLM's default for ``max_num_batched_tokens``, the denominator of shares, and the length of the
live tail if the recognizer fails repeatedly, in multiples of ``speech.max_tail_s``."""


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of one engine, in bytes.

    ``request`` is the cache for one request of maximum length, and ``requests`` the cache for all
    concurrent requests. vLLM does not profile audio encoders (``skip_mm_profiling``), so the memory
    of a running ``encoder`` is not part of the engine's share.
    """

    weights: float
    activations: float
    encoder: float
    request: float
    requests: float

    @property
    def least(self) -> float:
        """Return the smallest amount of memory with which the engine starts."""
        return self.weights + self.activations + CONTEXT + self.request


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Shares of GPU memory by role, with numbers instead of ``auto``, and the chosen models.

    ``total`` is the memory of the GPU and ``usable`` the part for engines, in bytes. ``shares`` is
    empty if the engines do not fit.
    """

    total: float
    usable: float
    needs: dict[str, Need]
    shares: dict[str, float]
    models: ModelsConfig

    def lines(self) -> Iterator[str]:
        """Format the plan for the terminal."""
        yield f"memory plan computed for {self.total / GIB:.1f} GiB:"
        for role, need in self.needs.items():
            model: ModelConfig = getattr(self.models, role)
            parts = (need.weights, need.activations, CONTEXT, need.request, need.requests)
            yield (
                "  {} {}: weights {:.2f} + activations {:.2f} + context {:.2f} + cache {:.2f} to "
                "{:.2f} GiB, encoder {:.2f}"
            ).format(role, model.path, *(size / GIB for size in (*parts, need.encoder)))
            if share := self.shares.get(role):
                window, cached = window_of(model), (share * self.total - need.least) / need.request
                tokens = int((cached + 1) * window)
                yield f"    share {share:.3f}: {tokens:,} tokens, requests of up to {window:,}"
        yield "  fits" if self.shares else f"  does not fit: {self.refusal()}"

    def refusal(self) -> str:
        """Explain why the engines do not fit, and name configurations that fit."""
        least = sum(need.least + need.encoder for need in self.needs.values())
        listed = ", ".join(f"{role} {need.least / GIB:.1f}" for role, need in self.needs.items())
        if written := written_shares(self.models):
            shares = ", ".join(f"{role} {share:g}" for role, share in written.items())
            found = f"the configured shares are {shares}: change them, or set them to {AUTO}"
        else:
            names = known_resources("agent_configs", ".yaml")
            configs = {name: load_config(name) for name in names}
            others = [
                name
                for name, config in configs.items()
                if not is_embedded(config.models)
                and config.models.asr.runtime == "vllm"  # other runtimes use no GPU
                and plan(config, self.total, self.usable).shares
            ]
            found = f"configurations that fit: {', '.join(others) or 'none'}"
        return (
            f"the engines need {least / GIB:.1f} GiB ({listed}), but {self.usable / GIB:.1f} GiB "
            f"are usable; {found}; or use a GPU of {math.ceil(least / GIB / (1 - FREE))} GiB "
            "without other programs (`nvidia-smi` lists them)"
        )


def plan(config: AgentConfig, total: float, free: float | None = None) -> MemoryPlan:
    """Plan the memory of a GPU with ``total`` bytes, of which ``free`` are free (default: all).

    With ``gpu_memory_utilization: auto``, the recognizer is ``models.asr`` or, if too large, its
    ``smaller`` model. An unset context is ``MAX_CONTEXT`` or, if too long, ``LEAST_CONTEXT``.
    """
    if not total:
        raise UnknownSizeError(
            "`nvidia-smi` does not report the memory of this GPU, which may be partitioned (MIG, "
            f"vGPU): set models.*.engine.{SHARE} to the numbers that `alignatt doctor --config "
            "CONFIG --gpu GIB` computes"
        )
    written = written_shares(config.models)
    reserve = FREE if len(written) < len(config.models.engine_roles) else 0.0
    usable = min((1 - reserve) * total, total if free is None else free)
    for models in _variants(config.models) if reserve else [config.models]:
        needs = {role: _need(config, role, models) for role in models.engine_roles}
        if shares := _shares(needs, written, total, usable):
            models = with_engines(models, {role: {SHARE: shares[role]} for role in shares})
            break
    return MemoryPlan(total, usable, needs, shares, models)


def _variants(models: ModelsConfig) -> Iterator[ModelsConfig]:
    """Yield the choices for ``auto``, largest first."""
    for asr, shortened in product(models.asr.sizes(), (False, True)):
        chosen = models.model_copy(update={"asr": asr})
        engines: dict[str, Mapping[str, Any]] = {}
        for role in chosen.roles:
            model = getattr(chosen, role)
            least = {"max_model_len": min(LEAST_CONTEXT, window_of(model))} if shortened else {}
            engines[role] = {**least, **model.engine}
        yield with_engines(chosen, engines)


def with_engines(models: ModelsConfig, engines: Mapping[str, Mapping[str, Any]]) -> ModelsConfig:
    """Replace engine arguments of the specified roles."""
    found = {role: getattr(models, role) for role in engines}
    for role, model in found.items():
        found[role] = model.model_copy(update={"engine": {**model.engine, **engines[role]}})
    return models.model_copy(update=found)


def _need(config: AgentConfig, role: str, models: ModelsConfig) -> Need:
    model: ModelConfig = getattr(models, role)
    found, engine = sizes_of(model), model.engine
    size, tower = found.value_bytes, 0.0
    seconds = _TAILS * config.speech.max_tail_s
    if role == "translation":
        seconds, tower = 0.0, TOWER * models.asr_is_translation
    tokens = int(engine.get("max_num_batched_tokens", _STEP_TOKENS))
    streams = int(engine.get("max_num_seqs", MAX_STREAMS))
    ranks = int(engine.get("tensor_parallel_size", 1))
    # Activations: the two halves of a gated layer and their product, the residual stream, and the
    # sampler's copies of the logits in float32.
    step = tokens * (3 * found.inner + 6 * found.hidden) * size + 3 * streams * found.outputs * 4
    audio = 3 * found.largest_frame * seconds * size
    request = window_of(model) * found.cache * size / ranks
    return Need(found.weights * size / ranks + tower, step, audio, request, streams * request)


def _shares(
    needs: Mapping[str, Need], written: Mapping[str, float], total: float, usable: float
) -> dict[str, float]:
    """Return the shares: each engine gets the memory to start, and the caches divide the rest."""
    planned = {role: need for role, need in needs.items() if role not in written}
    left = usable - sum(written.values()) * total
    left -= sum(need.least + need.encoder + total / _GRAIN for need in planned.values())
    if left < 0 or any(share * total < needs[role].least for role, share in written.items()):
        return {}
    most = sum(need.requests - need.request for need in planned.values())
    part = min(1.0, left / most) if most else 0.0
    shares = {
        role: math.ceil((need.least + part * (need.requests - need.request)) / total * _GRAIN)
        for role, need in planned.items()
    }
    return {role: written[role] if role in written else shares[role] / _GRAIN for role in needs}
