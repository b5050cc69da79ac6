"""Speed of drafts with the dimensions of Gemma-4 E4B, and the cost of rows and gate per step."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from torch.profiler import ProfilerActivity, profile

from alignatt_agent.engine.arguments import engine_arguments
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.early_stop import processor_name
from alignatt_agent.engine.environment import engine_environment
from alignatt_agent.types import Prompt
from alignatt_agent.types.engines import DraftRequest, Readout
from lab.bench import contenders
from lab.bench.__main__ import measure
from lab.bench.contenders import Size, open_gate
from lab.gpu import dimensions
from lab.gpu.parts import Context, Result

SHARE = 0.13
"""Share of the GPU's memory per engine: two or three engines, and two Transformers models."""

STEPS = 48
"""Decoding steps whose synchronisations are counted."""

_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_COPIES = ("Memcpy DtoH", "Memcpy HtoD", "cudaMemcpyAsync", "cudaMemcpy")
_COUNTED = (*_WAITS, *_COPIES, "cudaLaunchKernel", "cudaGraphLaunch", "aten::item")


def size(context: Context) -> Size:
    """Return the model of the bench."""
    if context.self_test:
        micro = contenders.micro()
        model = micro.model.model_copy(update={"engine": {"load_format": "dummy"}})
        return replace(micro, model=model, seconds=5.0)
    model = dimensions.translation(context.models / "gemma4-e4b")
    return Size("gemma4-e4b", model, dimensions.HEADS, seconds=120.0, gpu_share=SHARE)


def race_all(context: Context, engines: Sequence[int], seams: Sequence[Any]) -> Result:
    """Time contenders, paired, on the prompts and drafts of the bench."""
    chosen = size(context)
    started = (2, 3) if context.self_test else engines
    figures = measure(chosen, 6, 1, chosen.seconds, engines=started, seams=seams)
    medians: dict[str, float] = {}
    for name, contender in figures["race"].items():
        medians[name] = round(contender["ms_per_token"]["median"], 3)
    return {**figures, "summary": f"ms a token {medians}"}


def _in_process(arguments: Mapping[str, Any]) -> Any:
    """Return the parts of a served model that ``DraftEngine`` needs, where a profiler sees them."""
    from vllm import LLM

    engine = LLM(**arguments, seed=0)

    def generate(prompt: Any, sampling: Any) -> Any:
        return engine.generate([prompt], [sampling], use_tqdm=False)[0]

    def ask_workers(method: str, *arguments: Any) -> Any:
        return engine.collective_rpc(method, args=arguments)

    return SimpleNamespace(name="the engine", generate=generate, ask_workers=ask_workers)


def synchronisations(context: Context) -> Result:
    """Count host synchronisations in a step: plain, with rows, with a gate."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    chosen = size(context)
    prompt = Prompt(tuple(range(10, 200)), 40, tuple(range(100)))
    readout = Readout(chosen.heads, "predicting")
    ways: dict[str, tuple[Any, Any]] = {
        "plain": (None, None),
        "rows": (readout, None),
        "rows and gate": (readout, open_gate()),
    }
    with engine_environment():
        arguments = engine_arguments("translation", chosen.model, chosen.heads)
        from vllm.engine.arg_utils import EngineArgs

        options = {"max_model_len": 1024, "enforce_eager": context.self_test}
        arguments |= context.engine(0.3, **options)
        second = bool(EngineArgs(**arguments).create_engine_config().use_v2_model_runner)
        served = _in_process({**arguments, "logits_processors": [processor_name(second)]})
        drafts = DraftEngine(served, chosen.heads, frozenset())
        counted = {name: _count(drafts, prompt, *way) for name, way in ways.items()}
    extra: dict[str, dict[str, float]] = {}
    waits: dict[str, float] = {}
    for name, counts in counted.items():
        extra[name] = {}
        for event, times in counts.items():
            more = times - counted["plain"].get(event, 0)
            extra[name][event] = round(more / STEPS, 3)
        waits[name] = sum(extra[name].get(event, 0) for event in _WAITS)
    return {
        "model": chosen.name,
        "steps": STEPS,
        "model_runner": 2 if second else 1,
        "events": counted,
        "more_than_plain_a_step": extra,
        "summary": f"waits a step beyond plain: {waits}",
    }


def _count(drafts: Any, prompt: Any, readout: Any, gate: Any) -> dict[str, int]:
    """Count the events of a draft of ``STEPS`` tokens; its first one is not counted."""
    request = DraftRequest(prompt, STEPS, readout, gate)
    drafts.draft(request)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        drafts.draft(request)
    counts: Counter[str] = Counter()
    for event in profiler.key_averages():
        for name in _COUNTED:
            if event.key.startswith(name):
                counts[name] += event.count
    return dict(counts)
