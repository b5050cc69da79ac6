"""Compute the table for `alignatt doctor --predict`: the cost of a chunk on several GPUs.

Example:
    python -m lab.cost > alignatt_agent/doctor/predictions.yaml
"""

# A request costs ``request + steps x (step + layers x layer + bytes / bandwidth) + work / rate``.
# Audio adds the cost of its features. Bandwidth and rate of a GPU are half of the vendor's figures.
# Host times are assumptions that were not measured on a GPU.

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import yaml

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, load_config
from alignatt_agent.engine.model_sizes import PUBLISHED, models_of, sizes, sizes_of
from alignatt_agent.engine.options import PROVED_ON_CUDA
from lab import commands
from lab.stand_ins.__main__ import real_configurations

HEADER = """\
# Written by `python -m lab.cost`: computed, and confirmed by no GPU. For speech as in the
# embedded dev set: the real-time factor of a stream into one language, and the shortest chunk in
# milliseconds that keeps it at 0.5 or below (null: none up to 3000).
"""

KEEPS_UP = 0.5
"""Highest real-time factor of a configuration that keeps up with speech."""

CHUNKS_MS = (200, 250, 320, 400, 500, 640, 850, 1000, 1500, 2000, 3000)
"""Candidate lengths of chunks."""

AUDIO_TOKENS_PER_S = 13
TOKENS_PER_WORD = 1.5
"""Assumed tokens per word of transcripts. The embedded tokenizer, which counted runs, has 1.3."""

_WORK_PER_WORD = 1.3
_PROMPT = 24
"""Tokens of a recognizer's request without audio and answer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of a chunk to each model; averages over chunks of the length in the run."""

    chunk_s: float
    heard: float  # share of chunks whose live tail was transcribed and timed
    tail_s: float  # audio of such a tail
    tail_words: float  # of its transcript
    open_words: float  # of the open utterance
    requests: float  # of the recognizer
    asr_steps: float  # tokens that it sampled
    drafted: float  # share of chunks with a draft
    draft_steps: float  # tokens that it sampled in such a chunk
    accepted: float  # emitted tokens of these
    emission_s: float  # measured, outside the models

    def at(self, chunk_s: float) -> Workload:
        """Return the workload for another length of chunks.

        Tails keep their length, like sentences. The longer a chunk, the more of its draft is
        emitted; the number of rejected tokens stays the same.
        """
        more = self.accepted * (chunk_s / self.chunk_s - 1)
        drafted = self.draft_steps + more
        return replace(self, chunk_s=chunk_s, draft_steps=drafted, accepted=self.accepted + more)


WORK = Workload(**json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))
"""Workload of the German run of `make dev-low`; the counting code is at commit 0dc597f."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device for engines; seconds are host times."""

    bandwidth: float  # bytes of memory a second
    rate: float  # dense operations of bfloat16 a second
    request_s: float = 4e-3
    step_s: float = 1e-3  # a decoding step, and each of its layers:
    layer_s: float = 0.5e-3  # if every operation is launched separately
    graph_s: float = 0.03e-3  # if a graph launches them
    features_s: float = 2e-3  # of a second of audio


DEVICES: Mapping[str, Device] = {
    # Half of the vendors' data sheets: 4.8, 2.04, 1.01 and 0.3 TB/s; 989, 312, 165 and 121 Tflop/s.
    # Host times are assumed; those of a layer from 25.4 ms a token of Gemma-4 E4B in the paper.
    "h200": Device(2.4e12, 495e12),
    "a100": Device(1.02e12, 156e12),
    "4090": Device(0.5e12, 82e12),
    "l4": Device(0.15e12, 60e12),
}


@dataclass(frozen=True, slots=True)
class Demand:
    """Work of a chunk for one model."""

    requests: float
    steps: float  # forward passes of all of them
    prefill: float  # tokens that the first pass of each reads
    audio_s: float  # of each
    share: float  # of chunks that reach the model


def demands(work: Workload) -> dict[str, Demand]:
    """Return the work of a chunk for every model, by role."""
    heard, tail = AUDIO_TOKENS_PER_S * work.tail_s, TOKENS_PER_WORD * work.tail_words
    sampled = (work.asr_steps - work.requests) * TOKENS_PER_WORD / _WORK_PER_WORD
    return {
        # A transcript to be verified is part of the prompt.
        "asr": Demand(
            work.requests, work.requests + sampled, _PROMPT + heard + tail, work.tail_s, work.heard
        ),
        "aligner": Demand(1.0, 1.0, heard + tail + 2 * work.tail_words, work.tail_s, work.heard),
        # After the first changed word: the rest of the source and the accepted translation.
        "translation": Demand(
            1.0, work.draft_steps, 2 * TOKENS_PER_WORD * work.open_words, 0.0, work.drafted
        ),
    }


@cache
def parts(model: str) -> tuple[int, int, int]:
    """Return the values that a decoding step reads, those of the audio encoder, and the layers."""
    found, (whole, text, _) = sizes(PUBLISHED[model]), models_of(PUBLISHED[model])
    made, read = text.config, text.num_parameters()
    # A step reads one row of the embeddings that are not also the output.
    per_layer = getattr(made, "vocab_size_per_layer_input", None) or 0
    per_layer *= getattr(made, "hidden_size_per_layer_input", None) or 0
    read -= per_layer * made.num_hidden_layers
    read += (found.outputs - made.vocab_size) * found.hidden
    return read, whole.num_parameters() - text.num_parameters(), made.num_hidden_layers


def seconds(model: ModelConfig, eager: bool, demand: Demand, device: Device) -> float:
    """Compute the seconds of a chunk that reaches a model."""
    decoder, tower, layers = parts(model.path)
    launch = device.step_s + layers * (device.layer_s if eager else device.graph_s)
    prefill, audio = (demand.requests * each for each in (demand.prefill, demand.audio_s))
    operations = 2 * (decoder * prefill + tower * AUDIO_TOKENS_PER_S * audio)
    return (
        demand.requests * device.request_s
        + demand.steps * (launch + decoder * sizes_of(model).value_bytes / device.bandwidth)
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
    """Return the shortest of ``CHUNKS_MS`` that keeps up; ``None`` if no length does."""
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
