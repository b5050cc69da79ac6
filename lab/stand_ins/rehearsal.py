"""Run one configuration with stand-ins for its models, and compare its attention rows."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig, ModelsConfig
from alignatt_agent.config.checkpoints import CheckpointError, locate_one
from alignatt_agent.config.head_sets import ANY
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.models import SHARE
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.engine_checks import cases
from alignatt_agent.doctor.parity_check import parity
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import engine_environment, on_cpu
from alignatt_agent.speech.front_ends import WHISPER
from alignatt_agent.types import SAMPLE_RATE, AlignAttError, FloatArray, Step
from lab.stand_ins import fixed_transcript, layouts
from lab.stand_ins.speech import publish, write_whisper

OTHERS = ("de", "zh")
"""Targets of configurations without head sets, one per kind of script."""

SPOKEN = ("th", "ar", "ja")
"""Additional spoken languages of configurations without an aligner, one per kind of script."""


@dataclass(slots=True)
class Rehearsal:
    """Result of one configuration and target."""

    name: str
    model: str
    refused: str
    target: str
    source: str = "en"
    chunks: int = 0
    sentences: int = 0
    tokens: int = 0
    units: int = 0
    drafts_with_rows: int = 0
    rows: str = ""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def as_written(config: AgentConfig) -> tuple[str, list[str]]:
    """Try the configuration with its own models; return the result and missing commands."""
    missing = []
    for role in config.models.roles:
        model: ModelConfig = getattr(config.models, role)
        try:
            locate_one(model)
        except CheckpointError:
            missing.append(f"alignatt fetch {model.path}")
    try:
        AlignAttAgent.runtime.resolve(config)
    except CheckpointError as error:
        unnamed = [command for command in missing if command not in str(error)]
        return "refused", [f"as written: `{command}` is not named" for command in unnamed]
    return "weights here", [f"as written: started without `{command}`" for command in missing]


def stand_in(config: AgentConfig, folder: Path) -> AgentConfig:
    """Write stand-ins for the models of a configuration, each name once."""
    models: dict[str, ModelConfig] = {}
    with engine_environment():
        # The three engines of a configuration share a GPU.
        share = {} if on_cpu() else {SHARE: 0.1}
    for role in config.models.roles:
        model: ModelConfig = getattr(config.models, role)
        transcribes = model.path == config.models.asr.path
        # A recognizer is another model. Head sets name a model by the last part of its path.
        parent = folder / config.speech.recognizer if transcribes else folder
        path = parent / Path(model.path).name
        if not path.exists():
            _write(role, config, path)
        engine = {**model.engine, **share}
        models[role] = ModelConfig(path=str(path), dtype="float32", engine=engine)
    return config.model_copy(update={"models": ModelsConfig(**models)})


def _write(role: str, config: AgentConfig, path: Path) -> None:
    """Write the stand-in of one role; other front ends than Qwen3-ASR's transcribe one sentence."""
    if role == "asr" and config.speech.recognizer == WHISPER:
        fixed_transcript.teach_whisper(write_whisper(path))
    elif role != "translation" and not (role == "asr" and config.models.asr_is_translation):
        publish(role, path)
    else:
        layouts.write(config.models.translation.path, path)
        if config.models.asr_is_translation:
            fixed_transcript.teach_gemma4(path)


def rehearse(
    name: str, written: AgentConfig, audio: FloatArray, folder: Path
) -> Iterator[Rehearsal]:
    """Stream ``audio``, ``[samples]``, into every target with a head set, and compare rows."""
    from simulstream.config import yaml_config

    begin, model = time.monotonic(), Path(written.models.translation.path).name
    refused, problems = as_written(written)
    config = stand_in(written, folder)
    file = folder / f"{Path(name).stem}.yaml"
    file.write_text(config.to_yaml(), encoding="utf-8")
    rows = ""
    for source, target in product(_sources(config), _targets(config)):
        rehearsal = Rehearsal(name, model, refused, target, source, problems=problems)
        try:
            AlignAttAgent.load_model(yaml_config(str(file)))
            # Rows are those of the model, so one comparison covers all targets.
            if config.head_sets and not rows:
                rows, missed = _compare(AlignAttAgent.runtime.resolve(config))
                problems += missed
            stream(rehearsal, yaml_config(str(file)), audio, gated=bool(config.head_sets))
        except AlignAttError as error:
            problems.append(str(error))
        rehearsal.rows = rows
        rehearsal.seconds = time.monotonic() - begin
        yield rehearsal
        begin, problems = time.monotonic(), []  # those of all targets are reported once


def _sources(config: AgentConfig) -> list[str]:
    """Return the spoken languages, of which there are more without an aligner."""
    sources = [config.source_language]
    if config.models.aligner is None:
        sources += SPOKEN
    return sources


def _targets(config: AgentConfig) -> list[str]:
    """Return the targets with a head set, or else the configured target or two others."""
    if config.head_sets:
        # A head set for any target is read for one of them.
        return [code.replace(ANY, "fr") for code in config.head_sets]
    if config.target_language:
        return [config.target_language]
    return list(OTHERS)


def stream(rehearsal: Rehearsal, config: SimpleNamespace, audio: FloatArray, gated: bool) -> None:
    """Stream ``audio``, ``[samples]``, through a new agent; ``rehearsal`` takes the result."""
    steps: list[Step] = []
    agent, runtime = AlignAttAgent(config), AlignAttAgent.runtime
    failures = len(runtime.failures)
    agent.set_source_language(rehearsal.source)
    agent.set_target_language(rehearsal.target)
    size = round(agent.speech_chunk_size * SAMPLE_RATE)
    runtime.observer = steps.append
    try:
        outputs = [agent.process_chunk(audio[i : i + size]) for i in range(0, len(audio), size)]
        outputs.append(agent.end_of_stream())
    finally:
        runtime.observer = None
    units: list[str] = []
    for step in steps:
        units += step.units
        rehearsal.tokens += step.accepted
        rehearsal.sentences += len(step.heard.sentences)
        if step.gated and step.gated.words:
            rehearsal.drafts_with_rows += 1
    rehearsal.chunks = len(outputs)
    rehearsal.units = len(units)
    rehearsal.problems += runtime.failures[failures:]
    rehearsal.problems += _lost(steps, units, outputs, language(rehearsal.target))
    if gated and not rehearsal.drafts_with_rows:
        rehearsal.problems.append("no rows were read, although there is a head set")


def _lost(
    steps: Sequence[Step], units: Sequence[str], outputs: Sequence[Any], target: Language
) -> list[str]:
    """List the losses of the stream."""
    problems = []
    text = "".join(output.new_string for output in outputs)
    # Each unit is a word of the log, even if it continues an emitted word.
    words = " ".join(units).split()
    separator = " " if target.spaced else ""
    joined = separator.join(words)
    if text.strip() != joined:
        problems.append(f"the output {text!r} differs from the units {joined!r}")
    if steps[-1].heard.live.words:
        problems.append("words were left when the stream ended")
    if not any(step.heard.sentences for step in steps) or not units:
        problems.append("nothing was translated")
    return problems


def _compare(resolved: Resolved) -> tuple[str, list[str]]:
    """Compare rows of the loaded engine with Transformers' eager attention on the same ids."""
    engines = AlignAttAgent.runtime.load(resolved)
    assert isinstance(engines.translation, DraftEngine)
    requests = cases(resolved, engines.tokenizer)
    check = parity(engines.translation, resolved.checkpoints.translation, requests, "float32")
    if check.status == "ok":
        return check.result, []
    return check.result, [f"{check.name}: {check.result}"]
