"""Checks that start the engines."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.pace import describe, seconds_per_second
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.checks import Check, Status
from alignatt_agent.doctor.parity_check import REPORT_ROWS, Case, parity
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.policy import Policy
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import SAMPLE_RATE, EngineError
from alignatt_agent.types.engines import DraftRequest

SENTENCES = (
    "Today we look at how machines translate speech while somebody is still speaking.",
    "Our system reads the evidence, and then it waits.",
)


def examine(runtime: Runtime, resolved: Resolved) -> Iterator[Check]:
    """Start the engines and check their output."""
    with closing(runtime):
        try:
            engines = runtime.load(resolved)
        except EngineError as error:
            fix = "correct models in the configuration, or fix the cause that the message names"
            yield Check("engines", "FAIL", str(error).splitlines()[0], fix)
            return
        for role in resolved.checkpoints.engine_roles:
            found = f"started with a cache of {runtime.served[role].cache_tokens:,} tokens"
            yield Check(f"{role} engine", "ok", found)
        yield from _translation(resolved, runtime.served["translation"])
        yield from guarded("end to end", lambda: _end_to_end(engines))
        yield from guarded("pace", lambda: pace(resolved, engines))


def guarded(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    """Yield the result of a check, or a failure if it raises an error."""
    try:
        yield check()
    except EngineError as error:
        fix = "fix the cause above; `simulstream-eval` and `alignatt serve` would also fail"
        yield Check(name, "FAIL", str(error).splitlines()[0], fix)


def _translation(resolved: Resolved, served: ServedModel) -> Iterator[Check]:
    config, model = resolved.config, resolved.checkpoints.translation
    if not resolved.heads:
        yield Check("attention rows", "warn", "not captured: no head set is configured")
        return
    drafts, asked = DraftEngine(served, resolved.heads), cases(resolved, served.tokenizer())
    policy, longest = config.policy.alone(), config.max_draft_tokens
    dtype = str(served.config.dtype).removeprefix("torch.")
    yield from guarded("key layout", lambda: _layout(served))
    yield from guarded("rows", lambda: parity(drafts, model, asked, dtype))
    yield from guarded("token identity", lambda: identity(drafts, asked, longest))
    yield from guarded("early stop", lambda: early_stop(drafts, asked, policy, longest))
    yield from guarded("verified drafts", lambda: verification(drafts, asked, longest, dtype))
    yield from guarded("speed", lambda: speed(drafts, asked, longest, config.chunk_ms))


def cases(resolved: Resolved, tokenizer: Any) -> list[Case]:
    """Build a prompt for each head set and sentence."""
    config, source = resolved.config, language(resolved.config.source_language)
    found = []
    by_set = {item.name: target for target, item in resolved.head_sets.items()}
    for target in map(language, by_set.values()):
        readout = resolved.readout(source, target)
        builder = PromptBuilder.of(tokenizer, config.prompt, source, target)
        found += [Case(builder.build(text.split()), readout) for text in SENTENCES]
    return found


def _layout(served: ServedModel) -> Check:
    """Report the key layout that the engine detected at start-up."""
    found: dict[str, Any] = served.ask_workers("alignatt_describe")[0]
    backends, caches = ", ".join(found["backends"]), ", ".join(found["caches"])
    return Check("key layout", "ok", f"probed: {backends}, {found['cache_dtype']} pages {caches}")


def identity(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> Check:
    """Compare drafts with and without rows."""
    plain = [drafts.draft(DraftRequest(case.prompt, tokens)).token_ids for case in cases]
    rows = [drafts.draft(case.request(tokens)).token_ids for case in cases]
    same = sum(a == b for a, b in zip(plain, rows, strict=True))
    found = f"{same} of {len(cases)} drafts are equal"
    return Check.judged("same tokens with rows", same == len(cases), found, REPORT_ROWS)


def early_stop(drafts: DraftEngine, cases: Sequence[Case], policy: Policy, tokens: int) -> Check:
    """Compare the decisions on drafts cut by the gate with those on complete drafts."""
    name, same, total, steps = "early stop", 0, 0, [0, 0]
    if policy.gate(1) is None:
        return Check(name, "ok", "not used: an engine cannot run the gate of this policy")
    for case in cases:
        whole = drafts.draft(case.request(tokens))
        for quarter in (1, 2, 3):
            frontier = max(1, len(case.prompt.token_word) * quarter // 4)
            short = drafts.draft(replace(case.request(tokens), gate=policy.gate(frontier)))
            first, second = (policy.decide(draft, frontier).accepted for draft in (whole, short))
            same += first == second and whole.token_ids[:first] == short.token_ids[:first]
            total += 1
            steps = [steps[0] + whole.steps, steps[1] + short.steps]
    found = f"{same} of {total} decisions equal those of full drafts, {steps[1]}/{steps[0]} steps"
    fix = "set debug.early_stop to false, and report this output"
    return Check.judged(name, same == total, found, fix)


def verification(drafts: DraftEngine, cases: Sequence[Case], tokens: int, dtype: str) -> Check:
    """Compare decoded drafts with the same drafts verified in one pass.

    In float32, both are equal. In other types, prefill and decode steps round differently, so
    near-ties can be decided differently.
    """
    same, steps = 0, [0, 0]
    for case in cases:
        usual = drafts.draft(case.request(tokens))
        draft = drafts.draft(replace(case.request(tokens), expected=usual.token_ids))
        same += (draft.token_ids, draft.ended) == (usual.token_ids, usual.ended)
        steps = [steps[0] + usual.steps, steps[1] + draft.steps]
    found = f"{same} of {len(cases)} equal the decoded drafts, {steps[1]}/{steps[0]} steps"
    fix = "set debug.verify_drafts and debug.verify_transcripts to false, and report this output"
    bad: Status = "FAIL" if dtype == "float32" else "warn"
    return Check.judged("verified drafts", same == len(cases), found, fix, bad)


def ms_per_token(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> float:
    """Return the median time per token of drafts with attention rows, in ms, after a warm-up."""
    figures = []
    for case in [cases[0], cases[0], *cases, *cases]:
        start = time.perf_counter()
        draft = drafts.draft(case.request(tokens))
        elapsed = 1000 * (time.perf_counter() - start)
        figures.append(elapsed / max(1, draft.steps or len(draft.token_ids)))
    return median(figures[2:])


def speed(drafts: DraftEngine, cases: Sequence[Case], tokens: int, chunk_ms: int) -> Check:
    """Time drafts with rows; a draft should take less time than a chunk."""
    per_token = ms_per_token(drafts, cases, tokens)
    longest = per_token * tokens
    found = f"{per_token:.1f} ms per token; a draft of {tokens} tokens takes {longest:.0f} ms"
    found += f", more than a chunk of {chunk_ms} ms" * (longest > chunk_ms)
    fix = "raise chunk_ms, or run on a faster device"
    return Check.judged("speed", longest <= chunk_ms, found, fix, "warn")


def pace(resolved: Resolved, engines: Engines) -> Check:
    """Measure how long a second of speech takes, and describe what follows from it."""
    target = resolved.config.target_language or next(iter(resolved.head_sets), "de")
    measured = seconds_per_second(resolved, engines, target)
    line, _, fix = describe(measured, resolved.config.chunk_ms).partition(". ")
    return Check.judged("pace", measured <= 1, line, fix, "warn")


def _end_to_end(engines: Engines) -> Check:
    """Transcribe one second of noise, and align two words with the same audio."""
    name, samples = "end to end", np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    audio = (samples * 0.01).astype(np.float32)
    start = time.monotonic()
    text = engines.asr.transcribe(audio, "en").text
    found = f"a second of noise was transcribed as {text!r}"
    if engines.aligner is None:
        return Check(name, "ok", f"{found}, in {time.monotonic() - start:.2f} s")
    items = engines.aligner.align(audio, "hello world", "en")
    elapsed = time.monotonic() - start
    times = [bound for item in items for bound in (item.start, item.end)]
    if len(items) != 2 or not np.isfinite(times).all() or times != sorted(times):
        fix = "set models.aligner to a Qwen3 forced aligner"
        return Check(name, "FAIL", f"two words were aligned as {items}", fix)
    return Check(name, "ok", f"{found}, and two words were aligned, in {elapsed:.2f} s")
