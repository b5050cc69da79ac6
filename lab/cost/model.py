"""What a chunk costs on a device, computed from a recorded run and the sizes of the models.

A request costs ``request + steps x (step + layers x layer + bytes / bandwidth) + work / rate``,
audio its features on top. Bandwidth and rate of a GPU are its maker's figures, taken at half; its
host times are assumed (see ``DEVICES``) and were measured on no GPU. Those of a CPU are the ones of
the CPU at hand: two machines of one name took 0.23 and 0.13 of real time for the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from tabulate import tabulate

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.checkpoints import EMBEDDED, ROLES
from alignatt_agent.doctor.model_sizes import Sizes, sizes_of
from alignatt_agent.engine.options import EAGER_ON_CUDA
from lab.cost.workload import Workload

KEEPS_UP = 0.5
"""Highest real-time factor of a configuration that is to keep up with speech."""

CHUNKS_MS = (200, 250, 320, 400, 500, 640, 850, 1000, 1500, 2000, 3000)
"""Lengths of chunks to choose from."""

AUDIO_TOKENS_PER_S = 13
TOKENS_PER_WORD = {EMBEDDED: 1.3, "": 1.5}
"""Of a transcript: counted with the embedded tokenizer; assumed for published ones."""

_PROMPT = 24
"""Tokens of a recognizer's request without audio and answer."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where engines run.

    Attributes:
        bandwidth: bytes that can be read from memory in a second.
        rate: operations of bfloat16 (on a CPU: float32) in a second, dense.
        request_s: host seconds of a request.
        step_s: host seconds of a decoding step.
        layer_s: host seconds of a layer in a step, where every operation is launched by itself.
        graph_s: the same where a graph launches them.
        features_s: host seconds of the features of a second of audio.
    """

    bandwidth: float
    rate: float
    request_s: float = 4e-3
    step_s: float = 1e-3
    layer_s: float = 0.5e-3
    graph_s: float = 0.03e-3
    features_s: float = 2e-3

    def slower(self, factor: float) -> Device:
        """Return the device with a host that takes ``factor`` times as long."""
        return replace(
            self,
            request_s=factor * self.request_s,
            step_s=factor * self.step_s,
            layer_s=factor * self.layer_s,
            graph_s=factor * self.graph_s,
            features_s=factor * self.features_s,
        )


DEVICES: Mapping[str, Device] = {
    # Half of what the makers' data sheets say: 4.8, 2.04, 1.01 and 0.3 TB/s; 989, 312, 165 and
    # 121 Tflop/s. Host times are assumed. A layer: 25.4 ms a token of Gemma-4 E4B in the paper.
    "h200": Device(2.4e12, 495e12),
    "a100": Device(1.02e12, 156e12),
    "4090": Device(0.5e12, 82e12),
    "l4": Device(0.15e12, 60e12),
    # Two cores of an AMD EPYC. Bandwidth from the 200 M model of `make bench` (49 ms a token);
    # host times fitted to a run of micro-low into German, where an operation took LAUNCH_S.
    "cpu": Device(20e9, 60e9, 5e-3, 0.3e-3, 0.4e-3, 0.4e-3, 1.45e-3),
}

LAUNCH_S = 2.73e-6
"""What ``launch_s`` returned where the host times of ``cpu`` were fitted."""


def launch_s() -> float:
    """Measure how long this CPU takes to launch a small operation, in seconds (0.1 s)."""
    import torch

    row, weight = torch.ones(1, 64), torch.ones(64, 64)
    best, count = math.inf, 1000
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(count):
            torch.nn.functional.linear(row, weight).add_(row)
        best = min(best, (time.perf_counter() - begin) / count)
    return best


@cache
def _sizes(path: str, revision: str | None, dtype: str) -> Sizes:
    return sizes_of(ModelConfig(path=path, revision=revision, dtype=dtype))


@cache
def find_device(name: str) -> Device:
    """Return one of ``DEVICES``; ``cpu`` is the one at hand."""
    found = DEVICES[name]
    return found.slower(launch_s() / LAUNCH_S) if name == "cpu" else found


@dataclass(frozen=True, slots=True)
class Stage:
    """What a chunk that reaches a model asks of it, and what it costs.

    Attributes:
        steps: forward passes.
        prefill: tokens that the first of them reads.
        weights: bytes that its steps read.
        seconds: it takes.
        share: of chunks that reach the model.
    """

    steps: float
    prefill: float
    weights: float
    seconds: float
    share: float


class _Ask(NamedTuple):
    """What a chunk asks of a model: requests, steps, and of each request tokens and seconds."""

    requests: float
    steps: float
    prefill: float
    audio_s: float = 0.0


def stages(config: AgentConfig, work: Workload, device: str) -> dict[str, Stage]:
    """Compute what a chunk asks of every model, by role."""
    found = {}
    for role in ROLES:
        model: ModelConfig = getattr(config.models, role)
        words = TOKENS_PER_WORD[EMBEDDED if model.path.startswith(EMBEDDED) else ""]
        heard, tail = AUDIO_TOKENS_PER_S * work.tail_s, words * work.tail_words
        ask = {
            # A transcript that is verified is a prompt, too.
            "asr": _Ask(work.requests, _decoded(work, words), _PROMPT + heard + tail, work.tail_s),
            "aligner": _Ask(1.0, 1.0, heard + tail + 2 * work.tail_words, work.tail_s),
            # After the first changed word: the rest of the source and the accepted translation.
            "translation": _Ask(1.0, work.draft_steps, 2 * words * work.open_words),
        }[role]
        eager = bool(model.engine.get("enforce_eager", role in EAGER_ON_CUDA))
        share = work.drafted if role == "translation" else work.heard
        dimensions = _sizes(model.path, model.revision, model.dtype)
        found[role] = _stage(dimensions, find_device(device), eager, ask, share)
    return found


def _decoded(work: Workload, words: float) -> float:
    """Tokens that a transcript takes, where a word has so many."""
    if not work.asr_steps:  # decoded from nothing, not counted
        return 1 + words * work.tail_words
    return work.requests + (work.asr_steps - work.requests) * words / TOKENS_PER_WORD[EMBEDDED]


def _stage(found: Sizes, device: Device, eager: bool, ask: _Ask, share: float) -> Stage:
    decoder = found.weights - found.tower - found.tables
    weights = decoder * found.value_bytes
    launch = device.step_s + found.layers * (device.layer_s if eager else device.graph_s)
    prefill, audio = ask.requests * ask.prefill, ask.requests * ask.audio_s
    operations = 2 * (decoder * prefill + found.tower * AUDIO_TOKENS_PER_S * audio)
    seconds = (
        ask.requests * device.request_s
        + ask.steps * (launch + weights / device.bandwidth)
        + operations / device.rate
        + audio * device.features_s
    )
    return Stage(ask.steps, prefill, ask.steps * weights, seconds, share)


def rtf(config: AgentConfig, work: Workload, device: str) -> float:
    """Compute the real-time factor of a configuration on a device."""
    spent = sum(stage.share * stage.seconds for stage in stages(config, work, device).values())
    return (spent + work.rest) / work.chunk_s


def smallest_chunk(config: AgentConfig, work: Workload, device: str) -> int | None:
    """Return the shortest of ``CHUNKS_MS`` that keeps up, ``None`` if none does."""
    return next(
        (ms for ms in CHUNKS_MS if rtf(config, work.at(ms / 1000), device) <= KEEPS_UP), None
    )


def lines(config: AgentConfig, run: Workload, device: str) -> Iterator[str]:
    """Format the prediction of a configuration on one of ``DEVICES``, from a counted run."""
    work = run.at(config.chunk_ms / 1000)
    rows = [
        (
            role,
            f"{100 * stage.share:.0f} %",
            *(f"{figure:.1f}" for figure in (stage.steps, stage.prefill, stage.weights / 1e9)),
            f"{1000 * stage.seconds:.0f} ms",
        )
        for role, stage in stages(config, work, device).items()
    ]
    headers = ("computed", "chunks", "steps", "prefill tokens", "GB read", "seconds")
    yield str(tabulate(rows, headers, "plain", disable_numparse=True))
    yield ""
    yield (
        f"computed for {device}: real-time factor {rtf(config, work, device):.2f} at chunks of "
        f"{config.chunk_ms} ms, for speech as in the run: live tails of {run.tail_s:.1f} s with "
        f"{run.tail_words:.1f} words"
    )
    chunk = smallest_chunk(config, run, device)
    if chunk is None:
        yield f"no chunk up to {CHUNKS_MS[-1]} ms keeps it at {KEEPS_UP} or below"
    else:
        yield f"the shortest that keeps it at {KEEPS_UP} or below: --set chunk_ms={chunk}"
    if device == "cpu" and math.isclose(run.chunk_s, work.chunk_s, rel_tol=0.05):
        off = 100 * (rtf(config, work, device) / run.rtf - 1)
        yield f"measured in the run: {run.rtf:.2f}; computed is {off:+.0f} %, if it was this one"
