"""The part of ``alignatt-doctor`` that starts the engines and looks at what they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from alignatt_agent.checks import doctor_rows
from alignatt_agent.checks.bench_worker import EXTENSION
from alignatt_agent.checks.doctor_machine import ROLES, Check
from alignatt_agent.checks.doctor_rows import Case
from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import head_set_for
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment, on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import SpeechModel, TimingModel, stop_ids
from alignatt_agent.policy import build_policy
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.recognizer import QwenRecognizer
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import SAMPLE_RATE, EngineError

SENTENCES = (
    "Today we look at how machines translate speech while somebody is still speaking.",
    "Our system reads the evidence, and then it waits.",
)

Heads = tuple[tuple[int, int], ...]


def examine(config: AgentConfig, located: Mapping[str, ModelConfig]) -> Iterator[Check]:
    """Start the three engines and check what they do; checks come as they are made.

    Args:
        config: the configuration, its head sets already checked.
        located: every role with the local directory of its checkpoint.
    """
    heads = _heads(config)
    served: dict[str, ServedModel] = {}
    with engine_environment():
        try:
            for role in ROLES:
                yield from _start(role, located[role], heads, served)
            if "translation" in served:
                model, engine = located["translation"], served["translation"]
                yield from _translation(config, model, engine, heads)
            if "asr" in served and "aligner" in served:
                yield from guarded(
                    "end to end", lambda: _end_to_end(served["asr"], served["aligner"])
                )
        finally:
            for engine in served.values():  # side by side: each takes seconds
                engine.stop()
            for engine in served.values():
                engine.shutdown()
        if not on_cpu() and heads:
            yield from doctor_rows.graphs(
                located["translation"], heads, lambda model: _cases(config, model)
            )


def _heads(config: AgentConfig) -> Heads:
    """Return every head that any configured direction reads."""
    source = language(config.source_language)
    sets = [head_set_for(config, source, language(code)) for code in config.head_sets]
    return tuple(sorted({head for item in sets for head in item.top(config.policy.top_k)}))


def guarded(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    """Yield the result of a check, or its error as one."""
    try:
        yield check()
    except EngineError as error:
        fix = "read the message above; `simulstream-eval` and servers would stop at the same point"
        yield Check(name, "FAIL", str(error).splitlines()[0], fix)


def _start(
    role: str, model: ModelConfig, heads: Heads, served: dict[str, ServedModel]
) -> Iterator[Check]:
    name = f"{role} engine"
    start = time.monotonic()
    try:
        arguments = engine_arguments(role, model, heads)
        if role == "translation" and heads:
            arguments["worker_extension_cls"] = EXTENSION
        served[role] = ServedModel(f"{role} model {model.path}", arguments)
    except (EngineError, OSError, ValueError) as error:
        fix = f"correct models.{role} in the configuration, or what the message names"
        yield Check(name, "FAIL", str(error).splitlines()[0], fix)
        return
    yield Check(name, "ok", f"started in {time.monotonic() - start:.0f} s")


def _translation(
    config: AgentConfig, model: ModelConfig, served: ServedModel, heads: Heads
) -> Iterator[Check]:
    if not heads:
        yield Check("attention rows", "warn", "no head set is configured: nothing is captured")
        return
    drafts = DraftEngine(served, heads, stop_ids(served))
    cases = _cases(config, served)
    policy, longest = build_policy(config.policy, single=True), config.max_draft_tokens
    checks: dict[str, Callable[[], Check]] = {
        "key layout": lambda: doctor_rows.layout(served),
        "rows": lambda: doctor_rows.parity(drafts, model, cases, _dtype(served)),
        "token identity": lambda: doctor_rows.identity(drafts, cases, longest),
        "early stop": lambda: doctor_rows.early_stop(drafts, cases, policy, longest),
        "speed": lambda: doctor_rows.speed(drafts, cases, longest, config.chunk_ms),
    }
    for name, check in checks.items():
        yield from guarded(name, check)


def _dtype(served: ServedModel) -> str:
    return str(served.config.dtype).removeprefix("torch.")


def _cases(config: AgentConfig, served: ServedModel) -> list[Case]:
    """Build a prompt of every direction for each sentence."""
    source, tokenizer = language(config.source_language), served.tokenizer()
    found = []
    for code in config.head_sets:
        target = language(code)
        readout = head_set_for(config, source, target).readout(config.policy.top_k)
        builder = PromptBuilder(tokenizer, source.name, target.name)
        found += [Case(builder.build(text.split()), readout) for text in SENTENCES]
    return found


def _end_to_end(asr: ServedModel, aligner: ServedModel) -> Check:
    """Send a second of noise through the recogniser and align two words with it."""
    name, samples = "end to end", np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    audio = (samples * 0.01).astype(np.float32)
    start = time.monotonic()
    text = QwenRecognizer(SpeechModel(asr)).transcribe(audio, "en")
    items: list[Any] = QwenAligner(TimingModel(aligner)).align(audio, "hello world", "en")
    elapsed = time.monotonic() - start
    times = [bound for item in items for bound in (item.start, item.end)]
    if len(items) != 2 or not np.isfinite(times).all() or times != sorted(times):
        fix = "check that models.aligner is a Qwen3 forced aligner"
        return Check(name, "FAIL", f"two words were aligned as {items}", fix)
    found = f"a second of noise was heard as {text!r} and aligned, in {elapsed:.2f} s"
    return Check(name, "ok", found)
