"""One run: the agent itself on remembered engines, fed as Simulstream feeds it."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from simulstream.config import yaml_config
from simulstream.server.speech_processors.incremental_output import (
    IncrementalOutput,
    merge_incremental_outputs,
)

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade import Engines
from alignatt_agent.evaluation.cache import Memo
from alignatt_agent.types import SAMPLE_RATE, EngineError


class ReplayAgent(AlignAttAgent):
    """``AlignAttAgent`` whose engines are given, whatever models and heads a run names."""

    failures: ClassVar[list[str]] = []
    _engines: ClassVar[dict[str, Any]] = {}
    _given: ClassVar[Engines | None] = None

    @classmethod
    def give(cls, engines: Engines | None) -> None:
        """Use ``engines`` from now on."""
        cls._engines.clear()
        cls._given = engines

    @classmethod
    def _start_engines(cls, resolved: Any) -> Any:
        return cls._given

    @classmethod
    def _stop_engines(cls) -> None:
        cls._given = None


def write_log(
    config: Path,
    wavs: Sequence[Path],
    languages: tuple[str, str],
    memo: Memo,
    log: Path,
    agent: type[AlignAttAgent] = ReplayAgent,
) -> None:
    """Stream every talk through the agent and write Simulstream's metrics log.

    The computation time of a chunk is what its engine results took when they were computed; the
    little that Python adds is left out. The log appears under its name only once it is complete.

    Args:
        config: the resolved YAML of the run.
        wavs: talks, 16 kHz mono 16-bit.
        languages: spoken and target language.
        memo: the memo of the agent's engines.
        log: file to write.
        agent: the agent's class.

    Raises:
        EngineError: an engine failed.
    """
    settings = yaml_config(str(config))
    agent.failures.clear()  # of a stream that an exception ended
    agent.load_model(settings)
    processor = agent(settings)
    lines: list[dict[str, Any]] = [{"model_loading_time": 0.0}]
    for number, wav in enumerate(wavs):
        processor.set_target_language(languages[1])
        processor.set_source_language(languages[0])
        lines.append({"id": number, "metadata": {"wav_name": str(wav)}})
        for heard, computed, output in _steps(processor, read_wav(wav), memo):
            lines.append(
                {
                    "id": number,
                    "total_audio_processed": heard,
                    "computation_time": computed,
                    "generated_tokens": list(output.new_tokens),
                    "deleted_tokens": list(output.deleted_tokens),
                }
            )
        processor.clear()
        if agent.failures:
            raise EngineError(f"{wav.name}: " + "; ".join(agent.failures))
    fresh = log.with_suffix(".part")
    fresh.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    fresh.replace(log)


def _steps(
    agent: AlignAttAgent, samples: np.ndarray[Any, Any], memo: Memo
) -> Iterator[tuple[float, float, IncrementalOutput]]:
    """Yield audio seconds so far, seconds of computation and output of every chunk.

    As ``simulstream.inference`` does: the last piece and the end of the stream share a line.
    """
    size = int(SAMPLE_RATE * agent.speech_chunk_size)
    whole = len(samples) // size * size
    heard = 0.0
    for begin in range(0, whole, size):
        heard += size / SAMPLE_RATE
        output, seconds = _timed(partial(agent.process_chunk, samples[begin : begin + size]), memo)
        yield heard, seconds, output
    outputs = []
    spent = 0.0
    if whole < len(samples):
        heard += (len(samples) - whole) / SAMPLE_RATE
        output, spent = _timed(partial(agent.process_chunk, samples[whole:]), memo)
        outputs.append(output)
    output, seconds = _timed(agent.end_of_stream, memo)
    outputs.append(output)
    yield heard, spent + seconds, merge_incremental_outputs(outputs, agent.tokens_to_string)


def _timed(step: Callable[[], IncrementalOutput], memo: Memo) -> tuple[IncrementalOutput, float]:
    memo.spent = 0.0
    return step(), memo.spent


def read_wav(path: Path) -> np.ndarray[Any, Any]:
    """Read 16-bit samples as Simulstream hands them to a processor, ``[samples]``."""
    with wave.open(str(path), "rb") as stream:
        data = np.frombuffer(stream.readframes(stream.getnframes()), dtype=np.int16)
    return data.astype(np.float32) / 2**15
