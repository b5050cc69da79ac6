"""Compute the GPU memory that the engines of a configuration need, and their shares.

The plan has not been verified on a GPU. The actual size of vLLM's cache is printed when engines
start.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, ModelsConfig, load_config
from alignatt_agent.config.checkpoints import is_embedded
from alignatt_agent.config.models import AUTO, SHARE, written_shares
from alignatt_agent.config.resources import known_resources
from alignatt_agent.engine.arguments import MAX_CONTEXT, MAX_STREAMS, window_of
from alignatt_agent.engine.model_sizes import UnknownSizeError, sizes_of
from alignatt_agent.machine.nvidia import GIB

CONTEXT = 0.6 * GIB
"""Assumed size of the CUDA context, libraries and graphs in an engine's process, in bytes."""

TOWER = 0.7 * GIB
"""Assumed bytes of a transcribing translation model's audio tower, including activations."""

FREE = 0.05
"""Share of GPU memory that is left free for other programs and fragmentation."""

LEAST_CONTEXT = MAX_CONTEXT // 2
"""Context in tokens that ``auto`` uses instead of ``MAX_CONTEXT`` if memory is short."""

_STEP_TOKENS = 2048
"""vLLM's default for ``max_num_batched_tokens``."""

_GRAIN = 1000
"""Denominator of shares."""

_TAILS = 2
"""Length of the live tail if the recognizer fails repeatedly, in multiples of
``speech.max_tail_s``."""


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
            yield (
                f"  {role} {model.path}: "
                f"weights {need.weights / GIB:.2f} + activations {need.activations / GIB:.2f} + "
                f"context {CONTEXT / GIB:.2f} + cache {need.request / GIB:.2f} to "
                f"{need.requests / GIB:.2f} GiB, encoder {need.encoder / GIB:.2f}"
            )
            share = self.shares.get(role)
            if share:
                window = window_of(model)
                # ``need.least`` already contains the cache for one request.
                more_requests = (share * self.total - need.least) / need.request
                tokens = int((more_requests + 1) * window)
                yield f"    share {share:.3f}: {tokens:,} tokens, requests of up to {window:,}"
        if self.shares:
            yield "  fits"
        else:
            yield f"  does not fit: {self.refusal()}"

    def refusal(self) -> str:
        """Explain why the engines do not fit, and name configurations that fit."""
        least = 0.0
        for need in self.needs.values():
            least += need.least + need.encoder
        listed = ", ".join(f"{role} {need.least / GIB:.1f}" for role, need in self.needs.items())
        written = written_shares(self.models)
        if written:
            shares = ", ".join(f"{role} {share:g}" for role, share in written.items())
            remedy = f"the configured shares are {shares}: change them, or set them to {AUTO}"
        else:
            fitting = _fitting_configurations(self.total, self.usable)
            remedy = f"configurations that fit: {', '.join(fitting) or 'none'}"
        larger_gpu = math.ceil(least / GIB / (1 - FREE))
        return (
            f"the engines need {least / GIB:.1f} GiB ({listed}), but {self.usable / GIB:.1f} GiB "
            f"are usable; {remedy}; or use a GPU of {larger_gpu} GiB "
            "without other programs (`nvidia-smi` lists them)"
        )


def _fitting_configurations(total: float, usable: float) -> list[str]:
    """Return the names of the configurations whose engines fit a GPU."""
    names = []
    for name in known_resources("agent_configs", ".yaml"):
        config = load_config(name)
        if is_embedded(config.models):
            continue
        if config.models.asr.runtime != "vllm":  # other runtimes use no GPU
            continue
        if plan(config, total, usable).shares:
            names.append(name)
    return names


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
    usable = float(total)
    if free is not None:
        usable = min(usable, free)
    variants: Iterable[ModelsConfig] = [config.models]
    written = written_shares(config.models)
    if len(written) < len(config.models.engine_roles):
        # Shares that the user wrote may use the whole GPU; computed shares leave a reserve.
        usable = min((1 - FREE) * total, usable)
        variants = _variants(config.models)
    for models in variants:
        needs = {role: _need(config, role, models) for role in models.engine_roles}
        shares = _shares(needs, written, total, usable)
        if shares:
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
            engine = dict(model.engine)
            if shortened:
                engine.setdefault("max_model_len", min(LEAST_CONTEXT, window_of(model)))
            engines[role] = engine
        yield with_engines(chosen, engines)


def with_engines(models: ModelsConfig, engines: Mapping[str, Mapping[str, Any]]) -> ModelsConfig:
    """Replace engine arguments of the specified roles."""
    changed = {}
    for role, arguments in engines.items():
        model = getattr(models, role)
        changed[role] = model.model_copy(update={"engine": {**model.engine, **arguments}})
    return models.model_copy(update=changed)


def _need(config: AgentConfig, role: str, models: ModelsConfig) -> Need:
    model: ModelConfig = getattr(models, role)
    sizes = sizes_of(model)
    tokens = int(model.engine.get("max_num_batched_tokens", _STEP_TOKENS))
    streams = int(model.engine.get("max_num_seqs", MAX_STREAMS))
    ranks = int(model.engine.get("tensor_parallel_size", 1))

    audio_s = _TAILS * config.speech.max_tail_s
    tower = 0.0
    if role == "translation":
        audio_s = 0.0
        if models.asr_is_translation:
            tower = TOWER

    # The two halves of a gated layer and their product, and the residual stream.
    layers = tokens * (3 * sizes.inner + 6 * sizes.hidden) * sizes.value_bytes
    # The sampler's copies of the logits in float32.
    logits = 3 * streams * sizes.outputs * 4
    request = window_of(model) * sizes.cache * sizes.value_bytes / ranks
    return Need(
        weights=sizes.weights * sizes.value_bytes / ranks + tower,
        activations=layers + logits,
        encoder=3 * sizes.largest_frame * audio_s * sizes.value_bytes,
        request=request,
        requests=streams * request,
    )


def _shares(
    needs: Mapping[str, Need], written: Mapping[str, float], total: float, usable: float
) -> dict[str, float]:
    """Return the shares: each engine gets the memory to start, and the caches divide the rest.

    The result is empty if the engines do not fit.
    """
    for role, share in written.items():
        if share * total < needs[role].least:
            return {}
    planned = {role: need for role, need in needs.items() if role not in written}
    left = usable - sum(written.values()) * total
    # Rounding up may add one part of the GPU to each share.
    left -= sum(need.least + need.encoder + total / _GRAIN for need in planned.values())
    if left < 0:
        return {}
    # ``least`` includes the cache for one request of each engine.
    largest_caches = sum(need.requests - need.request for need in planned.values())
    part = 0.0
    if largest_caches:
        part = min(1.0, left / largest_caches)
    shares = {}
    for role, need in needs.items():
        if role in written:
            shares[role] = written[role]
        else:
            cache = part * (need.requests - need.request)
            shares[role] = math.ceil((need.least + cache) / total * _GRAIN) / _GRAIN
    return shares
