"""Compute the table of `alignatt doctor --predict`: what a chunk costs on devices not at hand.

Example:
    python -m lab.cost > alignatt_agent/doctor/predictions.yaml
"""

# A request costs ``request + steps x (step + layers x layer + bytes / bandwidth) + work / rate``,
# audio its features on top. Bandwidth and rate of a GPU are its maker's figures, taken at half; its
# host times are assumed and were measured on no GPU.

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, load_config
from alignatt_agent.engine.model_sizes import sizes_of
from alignatt_agent.engine.options import PROVED_ON_CUDA
from lab import commands
from lab.stand_ins.__main__ import real_configurations

HEADER = """\
# Written by `python -m lab.cost`: computed, and confirmed by no GPU. For speech as in the
# embedded dev set: the real-time factor of a stream into one language, and the shortest chunk in
# milliseconds that keeps it at 0.5 or below (null: none up to 3000).
"""

KEEPS_UP = 0.5
"""Highest real-time factor of a configuration that is to keep up with speech."""

CHUNKS_MS = (200, 250, 320, 400, 500, 640, 850, 1000, 1500, 2000, 3000)
"""Lengths of chunks to choose from."""

AUDIO_TOKENS_PER_S = 13
TOKENS_PER_WORD = 1.5
"""Of a transcript: assumed. The embedded tokenizer, with which runs are counted, has 1.3."""

_WORK_PER_WORD = 1.3
_PROMPT = 24
"""Tokens of a recognizer's request without audio and answer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a chunk asks of each model; averages over chunks of the run's own length."""

    chunk_s: float
    heard: float  # share of chunks whose live tail was transcribed and timed
    tail_s: float  # audio of such a tail
    tail_words: float  # of its transcript
    open_words: float  # of the open utterance
    requests: float  # how often the recognizer was asked for a transcript
    asr_steps: float  # tokens that it sampled for it
    drafted: float  # share of chunks that asked the translation model
    draft_steps: float  # tokens that it sampled in such a chunk
    accepted: float  # tokens of them that were emitted
    emission_s: float  # measured, of what no model does

    def at(self, chunk_s: float) -> Workload:
        """Return the workload of another length of chunks.

        Tails stay as long as they are, since their sentences do. The longer a chunk, the more of
        its draft is emitted; what is sampled in vain stays the same.
        """
        more = self.accepted * (chunk_s / self.chunk_s - 1)
        drafted = self.draft_steps + more
        return replace(self, chunk_s=chunk_s, draft_steps=drafted, accepted=self.accepted + more)


WORK = Workload(**json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))
"""That of the run into German of `make dev-low`; the counting code is at commit 0dc597f."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where engines run; seconds are those of the host."""

    bandwidth: float  # bytes of memory a second
    rate: float  # dense operations of bfloat16 a second
    request_s: float = 4e-3
    step_s: float = 1e-3  # a decoding step, and each of its layers:
    layer_s: float = 0.5e-3  # where every operation is launched by itself
    graph_s: float = 0.03e-3  # where a graph launches them
    features_s: float = 2e-3  # of a second of audio


DEVICES: Mapping[str, Device] = {
    # Half of what the makers' data sheets say: 4.8, 2.04, 1.01 and 0.3 TB/s; 989, 312, 165 and
    # 121 Tflop/s. Host times are assumed. A layer: 25.4 ms a token of Gemma-4 E4B in the paper.
    "h200": Device(2.4e12, 495e12),
    "a100": Device(1.02e12, 156e12),
    "4090": Device(0.5e12, 82e12),
    "l4": Device(0.15e12, 60e12),
}


@dataclass(frozen=True, slots=True)
class Demand:
    """What a chunk asks of a model."""

    requests: float
    steps: float  # forward passes of all of them
    prefill: float  # tokens that the first pass of each reads
    audio_s: float  # of each
    share: float  # of chunks that reach the model


def demands(work: Workload) -> dict[str, Demand]:
    """Return what a chunk asks of every model, by role."""
    heard, tail = AUDIO_TOKENS_PER_S * work.tail_s, TOKENS_PER_WORD * work.tail_words
    sampled = (work.asr_steps - work.requests) * TOKENS_PER_WORD / _WORK_PER_WORD
    return {
        # A transcript that is verified is a prompt, too.
        "asr": Demand(
            work.requests, work.requests + sampled, _PROMPT + heard + tail, work.tail_s, work.heard
        ),
        "aligner": Demand(1.0, 1.0, heard + tail + 2 * work.tail_words, work.tail_s, work.heard),
        # After the first changed word: the rest of the source and the accepted translation.
        "translation": Demand(
            1.0, work.draft_steps, 2 * TOKENS_PER_WORD * work.open_words, 0.0, work.drafted
        ),
    }


def seconds(model: ModelConfig, eager: bool, demand: Demand, device: Device) -> float:
    """Compute what a chunk that reaches a model costs."""
    found = sizes_of(model)
    decoder = found.weights - found.tower - found.tables
    launch = device.step_s + found.layers * (device.layer_s if eager else device.graph_s)
    prefill, audio = (demand.requests * each for each in (demand.prefill, demand.audio_s))
    operations = 2 * (decoder * prefill + found.tower * AUDIO_TOKENS_PER_S * audio)
    return (
        demand.requests * device.request_s
        + demand.steps * (launch + decoder * found.value_bytes / device.bandwidth)
        + operations / device.rate
        + audio * device.features_s
    )


def rtf(config: AgentConfig, work: Workload, device: Device) -> float:
    """Compute the real-time factor of a configuration on a device."""
    asked, spent = demands(work), work.emission_s
    for role in config.models.roles:
        model: ModelConfig = getattr(config.models, role)
        eager = bool(model.engine.get("enforce_eager", role in PROVED_ON_CUDA))
        spent += asked[role].share * seconds(model, eager, asked[role], device)
    return spent / work.chunk_s


def smallest_chunk(config: AgentConfig, work: Workload, device: Device) -> int | None:
    """Return the shortest of ``CHUNKS_MS`` that keeps up, ``None`` if none does."""
    return next(
        (ms for ms in CHUNKS_MS if rtf(config, work.at(ms / 1000), device) <= KEEPS_UP), None
    )


def _figures(config: AgentConfig) -> dict[str, dict[str, float | int | None]]:
    chunk, found = WORK.at(config.chunk_ms / 1000), {}
    for name, device in DEVICES.items():
        factor = round(rtf(config, chunk, device), 2)
        found[name] = {"rtf": factor, "chunk_ms": smallest_chunk(config, WORK, device)}
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of the doctor as YAML: configuration, device, figures."""
    commands.parser("lab.cost", __doc__).parse_args(argv)
    rows = {name: _figures(load_config(name)) for name in real_configurations()}
    print(HEADER + yaml.safe_dump(rows, sort_keys=False, default_flow_style=None), end="")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.cost", main))
