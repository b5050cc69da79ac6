"""The three engines of the cascade: started once per process, shared by all its streams."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment, on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import SpeechModel, TimingModel, stop_ids
from alignatt_agent.engine.supported_modes import check_vllm
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.recognizer import QwenRecognizer
from alignatt_agent.types import (
    SAMPLE_RATE,
    Aligner,
    EngineError,
    Prompt,
    Readout,
    Recognizer,
    TranslationEngine,
)

ROLES = ("asr", "aligner", "translation")


@dataclass(frozen=True, slots=True)
class Engines:
    """What the sessions of a process share.

    Attributes:
        asr: speech recognition.
        aligner: word times.
        translation: drafts with attention rows.
        tokenizer: fast Transformers tokenizer of the translation model.
        num_layers: decoder layers of the translation model.
        num_heads: attention heads per layer.
    """

    asr: Recognizer
    aligner: Aligner
    translation: TranslationEngine
    tokenizer: Any
    num_layers: int
    num_heads: int


_lock = threading.Lock()
_served: dict[str, tuple[str, ServedModel]] = {}
_engines: tuple[str, Engines] | None = None


def load_engines(models: ModelsConfig, heads: Sequence[tuple[int, int]]) -> Engines:
    """Start the three engines and warm them up.

    Calls with equal arguments return the same engines. An engine that died, or whose arguments
    changed, is started again; the others keep running.

    Args:
        models: the checkpoints and how their engines run.
        heads: every ``(layer, head)`` whose attention rows any draft will ask for.

    Raises:
        EngineError: an engine did not start; the message names its model and the cause.
    """
    global _engines
    try:
        check_vllm()
    except NotImplementedError as error:
        raise EngineError(str(error)) from error
    wanted = sorted(set(heads))
    with _lock:
        specs = {role: _spec(role, getattr(models, role), wanted) for role in ROLES}
        whole = json.dumps(specs)
        if _engines is not None and _engines[0] == whole and _all_alive():
            return _engines[1]
        _engines = None
        try:
            _start(models, wanted, specs)
        finally:
            # The last to be registered is the first to run: before vLLM and multiprocessing end
            # the engines' processes behind our back.
            atexit.unregister(shutdown)
            atexit.register(shutdown)
        engines = _assemble(models, wanted)
        _warm_up(engines, wanted)
        _engines = (whole, engines)
        return engines


def shutdown() -> None:
    """End all engines of this process; they can be loaded again."""
    global _engines
    with _lock:
        _engines = None
        models = [model for _, model in _served.values()]
        _served.clear()
        for model in models:  # side by side: each takes seconds
            model.stop()
        for model in models:
            model.shutdown()


def _spec(role: str, model: ModelConfig, heads: Sequence[tuple[int, int]]) -> str:
    return json.dumps([model.model_dump(mode="json"), heads if role == "translation" else []])


def _all_alive() -> bool:
    return len(_served) == len(ROLES) and all(model.alive for _, model in _served.values())


def _start(models: ModelsConfig, heads: Sequence[tuple[int, int]], specs: dict[str, str]) -> None:
    """Start the engines that are missing, dead or changed, side by side."""
    missing = []
    for role in ROLES:
        spec, served = _served.get(role, ("", None))
        if served is None or spec != specs[role] or not served.alive:
            missing.append(role)
            if served is not None:
                del _served[role]
                served.shutdown()

    with engine_environment():
        arguments = {role: _arguments(role, getattr(models, role), heads) for role in missing}
        # On a GPU an engine measures free memory while it starts, so there they start in turn.
        with ThreadPoolExecutor(len(ROLES) if on_cpu() else 1) as pool:
            started = {
                role: pool.submit(_serve, role, specs[role], getattr(models, role), arguments[role])
                for role in missing
            }
    for future in started.values():
        future.result()


def _arguments(role: str, model: ModelConfig, heads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    try:
        return engine_arguments(role, model, heads)
    except (OSError, ValueError) as error:
        raise EngineError(f"{_title(role, model)}: {error}") from error


def _serve(role: str, spec: str, model: ModelConfig, arguments: dict[str, Any]) -> None:
    # Noted in this thread: an interrupt of the waiting one leaves no engine behind unknown.
    _served[role] = (spec, ServedModel(_title(role, model), arguments))


def _title(role: str, model: ModelConfig) -> str:
    return f"{role} model {model.path}"


def _assemble(models: ModelsConfig, heads: Sequence[tuple[int, int]]) -> Engines:
    asr, aligner, translation = (_served[role][1] for role in ROLES)
    text = translation.config.hf_text_config
    return Engines(
        asr=QwenRecognizer(SpeechModel(asr)),
        aligner=QwenAligner(TimingModel(aligner)),
        translation=DraftEngine(translation, heads, stop_ids(translation)),
        tokenizer=translation.tokenizer(),
        num_layers=text.num_hidden_layers,
        num_heads=text.num_attention_heads,
    )


def _warm_up(engines: Engines, heads: Sequence[tuple[int, int]]) -> None:
    """Send one request of each kind, so that the first chunk of a stream is not slower.

    It also shows at start-up, not in mid-stream, that rows arrive.
    """
    audio = np.random.default_rng(0).standard_normal(2 * SAMPLE_RATE).astype(np.float32) * 0.01
    engines.asr.transcribe(audio, "en")
    engines.aligner.align(audio, "warm up", "en")
    prompt = Prompt(tuple(engines.tokenizer.encode("warm up " * 8))[:16], 1, (0, 0))
    for row in ("predicting", "emitted"):
        readout = Readout(tuple(heads), row) if heads else None
        engines.translation.draft(prompt, 4, readout)
