"""Checks of a configuration that load no model."""

import json
from collections.abc import Mapping
from pathlib import Path

from alignatt_agent.cascade.contexts import check_requests
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, identity, is_hub_id, locate_one
from alignatt_agent.config.head_set_choice import head_set_for
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import language
from alignatt_agent.config.models import SHARE
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.checks import Check, Status
from alignatt_agent.doctor.machine_checks import Machine
from alignatt_agent.engine.memory_plan import plan
from alignatt_agent.engine.model_sizes import UnknownSizeError
from alignatt_agent.machine.nvidia import GIB
from alignatt_agent.types import AlignAttError

_BFLOAT16_SINCE = 8.0
"""Lowest compute capability for which vLLM supports bfloat16."""

_MEMORY = "memory of the engines"
"""Name of the check of the engines' memory, until their shares are known."""


def check_checkpoints(
    config: AgentConfig, name: str = "CONFIG", smaller: str | None = None
) -> tuple[list[Check], dict[str, ModelConfig]]:
    """Check the checkpoints of a configuration; return those on this machine, with local paths.

    ``smaller`` is the configured ``models.asr.smaller``, which may have replaced ``models.asr``.
    """
    checks: list[Check] = []
    located_models: dict[str, ModelConfig] = {}
    for role in config.models.roles:
        model: ModelConfig = getattr(config.models, role)
        title = f"{role} checkpoint"
        try:
            path = locate_one(model)
        except CheckpointError as error:
            problem, _, fix = str(error).partition("; ")
            if is_hub_id(model):
                # The whole configuration, because further checkpoints may be missing.
                fix = f"run `alignatt fetch {name}`"
            checks.append(Check(title, "FAIL", problem, fix))
            continue
        located = model.model_copy(update={"path": str(path), "revision": None})
        located_models[role] = located
        fix = f"set models.{role}.revision to {path.name}"
        if model.path == smaller:
            fix = f"set models.asr.smaller to {smaller}@{path.name}"
        pinned = _is_pinned(model, path)
        content = identity(model, located)
        checks.append(Check.judged(title, pinned, content, f"pin it: {fix}", "warn"))
    return checks, located_models


def _is_pinned(model: ModelConfig, path: Path) -> bool:
    """Return whether a new commit on the hub cannot change the checkpoint at ``path``."""
    if model.revision:
        return True
    if model.path.startswith((".", "/", "~")) or "#" in model.path:
        return True
    # The hub's cache keeps the files of each commit in a folder below ``snapshots``.
    return "snapshots" not in path.parts


def check_types(machine: Machine, config: AgentConfig) -> list[Check]:
    """Check that the GPU supports the computation type of each model."""
    if not machine.gpus:
        return []
    gpu = machine.gpus[0]  # all engines share the first GPU
    if not 0 < gpu.capability < _BFLOAT16_SINCE:
        return []
    problem = (
        f"bfloat16 on {gpu.name} with compute capability {gpu.capability:.1f}: "
        f"bfloat16 needs {_BFLOAT16_SINCE} (Ampere) or higher"
    )
    fix = (
        "set dtype to float16 (float32 for Gemma-3, which vLLM rejects in float16), "
        "or use a newer GPU"
    )
    roles = config.models.engine_roles
    affected = [role for role in roles if getattr(config.models, role).dtype == "bfloat16"]
    return [Check(f"{role} dtype", "FAIL", problem, fix) for role in affected]


def check_asking(resolved: Resolved) -> Check:
    """Check that the models' templates accept the requests of the configuration."""
    name = "prompts"
    try:
        check_requests(resolved)
    except AlignAttError as error:
        return Check.failed(name, error, "correct speech.context or prompt")
    return Check(name, "ok", "the templates accept all turns, and the names and terms fit")


def check_memory(machine: Machine, config: AgentConfig, weights: Mapping[str, int]) -> Check:
    """Compare the engines' memory with the free memory; ``weights`` maps roles to bytes."""
    if machine.extra == "cuda":
        return _check_gpu_memory(machine, config)
    space = machine.kv_space or "1"
    if not space.isdigit() or int(space) < 1:
        problem = f"VLLM_CPU_KVCACHE_SPACE is {space!r}, expected whole GiB"
        return Check(_MEMORY, "FAIL", problem, "run `export VLLM_CPU_KVCACHE_SPACE=1`")
    engine_count = len(config.models.engine_roles)
    weight_size = sum(weights.values())
    cache_size = engine_count * int(space) * GIB
    listing = (
        f"{engine_count} caches of {space} GiB and {weight_size / GIB:.1f} GiB of weights, "
        f"{machine.free_memory / GIB:.1f} GiB free"
    )
    fits = cache_size + weight_size <= machine.free_memory
    fix = "lower VLLM_CPU_KVCACHE_SPACE, stop other programs, or use smaller models"
    return Check.judged(_MEMORY, fits, listing, fix)


def _check_gpu_memory(machine: Machine, config: AgentConfig) -> Check:
    """Check whether the shares of the engines fit into the free memory of the first GPU."""
    if not machine.gpus:
        return Check(_MEMORY, "warn", "not compared: there is no GPU")
    gpu = machine.gpus[0]
    try:
        memory_plan = plan(config, gpu.total, gpu.free)
    except UnknownSizeError as error:
        return Check(_MEMORY, "warn", str(error), f"set models.*.engine.{SHARE} to numbers")
    if not memory_plan.shares:
        return Check.failed(SHARE, memory_plan.refusal())
    listing = " + ".join(f"{role} {share:g}" for role, share in memory_plan.shares.items())
    return Check(SHARE, "ok", f"{listing} of {memory_plan.total / GIB:.1f} GiB")


def check_head_sets(config: AgentConfig, shape: tuple[int, int] | None) -> list[Check]:
    """Check that every configured head set fits the layers and heads of the translation model."""
    if not config.head_sets:
        # A policy that reads only the tokens of a draft needs no heads.
        status: Status = "FAIL"
        if config.policy.reads == "tokens":
            status = "warn"
        fix = "add a head set for each target language under head_sets"
        return [Check("head sets", status, "none is configured", fix)]
    source = language(config.source_language)
    model = config.models.translation
    checks: list[Check] = []
    for code in config.head_sets:
        name = f"head set {source.code}-{code}"
        try:
            head_set = head_set_for(config, source, code)
            if shape:
                head_set.check(model.path, *shape, head_set.direction, model.revision)
        except HeadSetError as error:
            checks.append(Check.failed(name, error, f"correct head_sets.{code}"))
            continue
        listing = f"{head_set.name}: {config.policy_for(code).top_k} heads, row {head_set.row}"
        if head_set.provisional:
            listing += " (provisional)"
        if head_set.prompt_sha256 in (None, config.prompt.digest(source.code, code)):
            checks.append(Check(name, "ok", listing))
        else:
            listing += ", calibrated with another prompt"
            fix = "calibrate with the configuration's prompt: `alignatt calibrate run --config`"
            checks.append(Check(name, "warn", listing, fix))
    return checks


def decoder_shape(model: ModelConfig) -> tuple[int, int]:
    """Return the numbers of decoder layers and heads per layer, from ``config.json``."""
    config = json.loads((Path(model.path) / "config.json").read_text(encoding="utf-8"))
    # Models with an audio or image tower keep the decoder's shape one level deeper.
    decoder = config.get("text_config", config)
    return decoder["num_hidden_layers"], decoder["num_attention_heads"]
