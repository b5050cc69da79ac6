"""Check the attention rows on this device."""

import importlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from lab.gpu.parts import Context, Result, gpu_memory_used

IMPORTS = (
    "vllm.v1.engine.async_llm", "vllm.model_executor.models.gemma4",
    "vllm.model_executor.models.gemma4_mm", "vllm.model_executor.models.qwen3_asr",
    "alignatt_agent.engine.capture", "alignatt_agent.engine.attention_rows",
    "alignatt_agent.engine.early_stop", "alignatt_agent.cascade.runtime",
)  # fmt: skip
"""Imports of engines and cascade that do not touch a GPU."""

GPU_IMPORTS = (
    "vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu.model_runner", "vllm.v1.attention.backends.triton_attn",
    "vllm.v1.attention.backends.flash_attn", "vllm.v1.attention.backends.flex_attention",
)  # fmt: skip
"""Imports of the CUDA build only."""

FEW_BLOCKS = {"num_gpu_blocks_override": 32, "max_model_len": 512}
"""Too few for all requests of a batch: some are preempted and start again."""

SHARE = 0.1
"""Share of the GPU's memory for the engine of a tiny model."""


def describe(context: Context) -> Result:
    """Describe machine and versions, and import what the other parts need."""
    import torch

    from alignatt_agent.engine.plugin import prepare

    prepare()  # as in every process of an engine
    failed = {}
    names = IMPORTS if context.self_test else IMPORTS + GPU_IMPORTS
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # one that fails says what the others lack
            failed[name] = f"{type(error).__name__}: {error}"
    machine: dict[str, Any] = {
        "python": platform.python_version(),
        "torch_cuda": torch.version.cuda,
        "gpu_memory_used": gpu_memory_used(),
        "failed_imports": failed,
    }
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        machine["gpu"] = {
            "name": card.name,
            "memory": card.total_memory,
            "multiprocessors": card.multi_processor_count,
            "capability": f"{card.major}.{card.minor}",
        }
    machine["problem"] = f"imports fail: {', '.join(failed)}" if failed else ""
    machine["summary"] = str(machine.get("gpu", "no GPU"))
    return machine


def parity(
    context: Context,
    mode: str,
    subject: str = "gemma4-random",
    backend: str = "TRITON_ATTN",
    dtypes: Sequence[Any] = ("float32",),
) -> Result:
    """Run the parity matrix of one mode on one model."""
    # Drafts of a batch end at different steps: every batch size down to one is replayed.
    from lab.parity import cases as parity_cases
    from lab.parity.run import measure

    device = "cpu" if context.self_test else "cuda"
    model = parity_cases.subject(subject, context.models)
    arguments = _arguments(context, mode, backend)
    cells = [cell.summary() for cell in measure([model], {mode: arguments}, dtypes, device)]
    problems = [f"{cell['situation']}: {text}" for cell in cells for text in cell["problems"]]
    worst = max(cell["same_dtype"]["largest"] for cell in cells)
    return {
        "mode": mode,
        "backend": None if context.self_test else backend,
        "layout": _layout(model, dtypes[0], arguments),
        "cells": cells,
        "problem": "; ".join(problems),
        "summary": f"{len(cells)} cells, max |dA| {worst:.1e}",
    }


def _arguments(context: Context, mode: str, backend: str) -> dict[str, Any]:
    from lab.parity.cases import CUDA_MODES, MODES

    is_preempted = mode == "preempted"
    arguments: dict[str, Any] = {}
    if context.self_test:
        arguments |= MODES["eager"]
    else:
        # "preempted" is no mode of the engine: it is the full one with few blocks.
        arguments |= CUDA_MODES["full" if is_preempted else mode]
        arguments["attention_backend"] = backend
    if is_preempted:
        arguments |= FEW_BLOCKS
    return context.engine(SHARE, **arguments)


def _layout(subject: Any, dtype: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what the start-up probe finds: backends, and the shapes of their caches."""
    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine.start import start_model

    engine = {**arguments, "enforce_eager": True}
    model = ModelConfig(path=str(subject.path), dtype=dtype, engine=engine)
    served = start_model("translation", model, subject.heads)
    try:
        return served.ask_workers("alignatt_describe")[0]
    finally:
        served.shutdown()
