"""The served models of a process: started together, kept, and restarted after their death."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.engine import fork_server
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment, on_cpu
from alignatt_agent.engine.plugin import register
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import stop_ids
from alignatt_agent.engine.supported_modes import check_vllm
from alignatt_agent.types import EngineError

_served: dict[str, tuple[str, ServedModel]] = {}


def start(
    role: str,
    model: ModelConfig,
    heads: Sequence[tuple[int, int]] = (),
    transcribes: bool = False,
    **overrides: Any,
) -> ServedModel:
    """Start one engine, which its caller shuts down; ``overrides`` have the last word.

    See ``options.engine_arguments``.
    """
    _require_vllm()
    with engine_environment():
        _expect_engines()
        arguments = _arguments(role, model, heads, transcribes)
        return ServedModel(_title(role, model), {**arguments, **overrides})


def draft_engine(served: ServedModel, heads: Sequence[tuple[int, int]]) -> DraftEngine:
    """Return the translation engine on a served model whose workers capture ``heads``."""
    return DraftEngine(served, heads, stop_ids(served))


def pooled(models: ModelsConfig, heads: Sequence[tuple[int, int]]) -> dict[str, ServedModel]:
    """Return the engines of this process by role, and start the missing ones.

    One that died, or whose arguments changed, is restarted; the others keep running.
    """
    _require_vllm()
    specs: dict[str, str] = {}
    missing = []
    for role in set(_served) - set(models.engine_roles):
        _served.pop(role)[1].shutdown()
    for role in models.engine_roles:
        model: ModelConfig = getattr(models, role)
        captured = list(heads) if role == "translation" else []
        settings = model.model_dump(mode="json"), captured, _transcribes(models, role)
        specs[role] = json.dumps(settings)
        spec, served = _served.get(role, ("", None))
        if served is None or spec != specs[role] or not served.alive:
            missing.append(role)
            if served is not None:
                del _served[role]
                served.shutdown()

    def serve(role: str, arguments: dict[str, Any]) -> None:
        # Noted in this thread: an interrupt of the waiting one leaves no unknown engine behind.
        title = _title(role, getattr(models, role))
        _served[role] = (specs[role], ServedModel(title, arguments))

    with engine_environment():
        if missing:
            _expect_engines()
        arguments = {
            role: _arguments(role, getattr(models, role), heads, _transcribes(models, role))
            for role in missing
        }
        # On a GPU an engine measures free memory while it starts, so they start one by one.
        with ThreadPoolExecutor(len(specs) if on_cpu() else 1, "engine start") as threads:
            started = [threads.submit(serve, role, arguments[role]) for role in missing]
    for future in started:
        future.result()
    mine = {role: _served[role][1] for role in models.engine_roles}
    return {"asr": mine["translation"], **mine}


def all_alive() -> bool:
    """Whether engines are running and all can serve requests."""
    return bool(_served) and all(model.alive for _, model in _served.values())


def end_all() -> None:
    """End the engines of this process."""
    models = [model for _, model in _served.values()]
    _served.clear()
    for model in models:  # all at once: each takes seconds
        model.stop()
    for model in models:
        model.shutdown()


def _require_vllm() -> None:
    try:
        check_vllm()
    except NotImplementedError as error:
        raise EngineError(str(error)) from error


def _expect_engines() -> None:
    if on_cpu():
        fork_server.begin()
    register()  # vLLM calls it once only, maybe before this process had engines of ours


def _transcribes(models: ModelsConfig, role: str) -> bool:
    return role == "translation" and models.asr_is_translation


def _arguments(
    role: str, model: ModelConfig, heads: Sequence[tuple[int, int]], transcribes: bool
) -> dict[str, Any]:
    try:
        return engine_arguments(role, model, heads, transcribes)
    except (OSError, ValueError) as error:
        raise EngineError(f"{_title(role, model)}: {error}") from error


def _title(role: str, model: ModelConfig) -> str:
    return f"{role} model {model.path}"
