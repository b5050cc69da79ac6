"""Checks of a configuration that load no model."""

import json
from collections.abc import Mapping
from pathlib import Path

from alignatt_agent.cascade.contexts import check_requests
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, identity, is_hub_id, locate_one
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import language
from alignatt_agent.config.models import SHARE
from alignatt_agent.config.resolved import Resolved, head_set_for
from alignatt_agent.doctor.checks import Check
from alignatt_agent.doctor.machine_checks import Machine
from alignatt_agent.engine.memory_plan import plan
from alignatt_agent.engine.model_sizes import UnknownSizeError
from alignatt_agent.machine.nvidia import GIB
from alignatt_agent.types import AlignAttError

_BFLOAT16_SINCE = 8.0
"""Lowest compute capability for which vLLM supports bfloat16."""


def check_checkpoints(
    config: AgentConfig, name: str = "CONFIG", smaller: str | None = None
) -> tuple[list[Check], dict[str, ModelConfig]]:
    """Check the checkpoints of a configuration; return those on this machine, with local paths.

    ``smaller`` is the configured ``models.asr.smaller``, which may have replaced ``models.asr``.
    """
    checks: list[Check] = []
    found: dict[str, ModelConfig] = {}
    for role in config.models.roles:
        model: ModelConfig = getattr(config.models, role)
        title = f"{role} checkpoint"
        try:
            path = locate_one(model)
        except CheckpointError as error:
            what, _, fix = str(error).partition("; ")
            fix = f"run `alignatt fetch {name}`" if is_hub_id(model) else fix
            checks.append(Check(title, "FAIL", what, fix))
            continue
        located = model.model_copy(update={"path": str(path), "revision": None})
        found[role] = located
        pinned = model.revision or model.path.startswith((".", "/", "~")) or "#" in model.path
        fix = f"set models.{role}.revision to {path.name}"
        if model.path == smaller:
            fix = f"set models.asr.smaller to {smaller}@{path.name}"
        kept = bool(pinned) or "snapshots" not in path.parts
        here = identity(model, located)
        checks.append(Check.judged(title, kept, here, f"pin it: {fix}", "warn"))
    return checks, found


def check_types(machine: Machine, config: AgentConfig) -> list[Check]:
    """Check that the GPU supports the computation type of each model."""
    models, checks = config.models, []
    asked = [role for role in models.engine_roles if getattr(models, role).dtype == "bfloat16"]
    for gpu in machine.gpus[:1]:
        if 0 < gpu.capability < _BFLOAT16_SINCE:
            found = (
                f"bfloat16 on {gpu.name} with compute capability {gpu.capability:.1f}: "
                f"bfloat16 needs {_BFLOAT16_SINCE} (Ampere) or higher"
            )
            fix = (
                "set dtype to float16 (float32 for Gemma-3, which vLLM rejects in float16), "
                "or use a newer GPU"
            )
            checks += [Check(f"{role} dtype", "FAIL", found, fix) for role in asked]
    return checks


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
    name = "memory of the engines"
    if machine.extra == "cuda":
        if not machine.gpus:
            return Check(name, "warn", "not compared: there is no GPU")
        try:
            fitting = plan(config, machine.gpus[0].total, machine.gpus[0].free)
        except UnknownSizeError as error:
            return Check(name, "warn", str(error), f"set models.*.engine.{SHARE} to numbers")
        if fitting.shares:
            listing = " + ".join(f"{role} {share:g}" for role, share in fitting.shares.items())
            return Check(SHARE, "ok", f"{listing} of {fitting.total / GIB:.1f} GiB")
        return Check.failed(SHARE, fitting.refusal())
    space = machine.kv_space or "1"
    if not space.isdigit() or int(space) < 1:
        found = f"VLLM_CPU_KVCACHE_SPACE is {space!r}, expected whole GiB"
        return Check(name, "FAIL", found, "run `export VLLM_CPU_KVCACHE_SPACE=1`")
    count, files, free = len(config.models.engine_roles), sum(weights.values()), machine.free_memory
    listing = f"{count} caches of {space} GiB and {files / GIB:.1f} GiB of weights"
    listing += f", {free / GIB:.1f} GiB free"
    fix = "lower VLLM_CPU_KVCACHE_SPACE, stop other programs, or use smaller models"
    return Check.judged(name, count * int(space) * GIB + files <= free, listing, fix)


def check_head_sets(config: AgentConfig, shape: tuple[int, int] | None) -> list[Check]:
    """Check that every configured head set fits the layers and heads of the translation model."""
    if not config.head_sets:
        fix = "add a head set for each target language under head_sets"
        failed = config.policy.reads != "tokens"
        return [Check("head sets", "FAIL" if failed else "warn", "none is configured", fix)]
    source, model = language(config.source_language), config.models.translation
    checks = []
    for code in config.head_sets:
        name = f"head set {source.code}-{code}"
        try:
            head_set = head_set_for(config, source, code)
            if shape:
                head_set.check(model.path, *shape, head_set.direction, model.revision)
        except HeadSetError as error:
            checks.append(Check.failed(name, error, f"correct head_sets.{code}"))
            continue
        found = f"{head_set.name}: {config.policy_for(code).top_k} heads, row {head_set.row}"
        found += " (provisional)" * head_set.provisional
        if head_set.prompt_sha256 in (None, config.prompt.digest(source.code, code)):
            checks.append(Check(name, "ok", found))
        else:
            fix = "calibrate with the configuration's prompt: `alignatt calibrate run --config`"
            checks.append(Check(name, "warn", found + ", calibrated with another prompt", fix))
    return checks


def decoder_shape(model: ModelConfig) -> tuple[int, int]:
    """Return the numbers of decoder layers and heads per layer, from ``config.json``."""
    config = json.loads((Path(model.path) / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    return text["num_hidden_layers"], text["num_attention_heads"]
