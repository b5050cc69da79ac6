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
            cache_tokens = runtime.served[role].cache_tokens
            yield Check(f"{role} engine", "ok", f"started with a cache of {cache_tokens:,} tokens")
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
    drafts = DraftEngine(served, resolved.heads)
    prompts = cases(resolved, served.tokenizer())
    policy = config.policy.alone()
    longest = config.max_draft_tokens
    dtype = str(served.config.dtype).removeprefix("torch.")
    yield from guarded("key layout", lambda: _layout(served))
    yield from guarded("rows", lambda: parity(drafts, model, prompts, dtype))
    yield from guarded("token identity", lambda: identity(drafts, prompts, longest))
    yield from guarded("early stop", lambda: early_stop(drafts, prompts, policy, longest))
    yield from guarded("verified drafts", lambda: verification(drafts, prompts, longest, dtype))
    yield from guarded("speed", lambda: speed(drafts, prompts, longest, config.chunk_ms))


def cases(resolved: Resolved, tokenizer: Any) -> list[Case]:
    """Build a prompt for each head set and sentence."""
    config = resolved.config
    source = language(config.source_language)
    # A head set for any target is listed for each of them; one of the targets is enough.
    target_codes = {head_set.name: code for code, head_set in resolved.head_sets.items()}
    prompts: list[Case] = []
    for code in target_codes.values():
        target = language(code)
        readout = resolved.readout(source, target)
        builder = PromptBuilder.of(tokenizer, config.prompt, source, target)
        prompts += [Case(builder.build(sentence.split()), readout) for sentence in SENTENCES]
    return prompts


def _layout(served: ServedModel) -> Check:
    """Report the key layout that the engine detected at start-up."""
    layout: dict[str, Any] = served.ask_workers("alignatt_describe")[0]
    backends = ", ".join(layout["backends"])
    caches = ", ".join(layout["caches"])
    return Check("key layout", "ok", f"probed: {backends}, {layout['cache_dtype']} pages {caches}")


def identity(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> Check:
    """Compare drafts with and without rows."""
    plain = [drafts.draft(DraftRequest(case.prompt, tokens)).token_ids for case in cases]
    with_rows = [drafts.draft(case.request(tokens)).token_ids for case in cases]
    equal = 0
    for plain_ids, ids in zip(plain, with_rows, strict=True):
        if plain_ids == ids:
            equal += 1
    summary = f"{equal} of {len(cases)} drafts are equal"
    return Check.judged("same tokens with rows", equal == len(cases), summary, REPORT_ROWS)


def early_stop(drafts: DraftEngine, cases: Sequence[Case], policy: Policy, tokens: int) -> Check:
    """Compare the decisions on drafts cut by the gate with those on complete drafts."""
    if policy.gate(1) is None:
        return Check("early stop", "ok", "not used: an engine cannot run the gate of this policy")
    equal = total = 0
    whole_steps = short_steps = 0
    for case in cases:
        whole = drafts.draft(case.request(tokens))
        # Frontiers at a quarter, half and three quarters of the source stop at different tokens.
        for quarter in (1, 2, 3):
            frontier = max(1, len(case.prompt.token_word) * quarter // 4)
            short = drafts.draft(replace(case.request(tokens), gate=policy.gate(frontier)))
            accepted = policy.decide(whole, frontier).accepted
            same_count = policy.decide(short, frontier).accepted == accepted
            if same_count and short.token_ids[:accepted] == whole.token_ids[:accepted]:
                equal += 1
            total += 1
            whole_steps += whole.steps
            short_steps += short.steps
    summary = (
        f"{equal} of {total} decisions equal those of full drafts, "
        f"{short_steps}/{whole_steps} steps"
    )
    fix = "set debug.early_stop to false, and report this output"
    return Check.judged("early stop", equal == total, summary, fix)


def verification(drafts: DraftEngine, cases: Sequence[Case], tokens: int, dtype: str) -> Check:
    """Compare decoded drafts with the same drafts verified in one pass.

    In float32, both are equal. In other types, prefill and decode steps round differently, so
    near-ties can be decided differently.
    """
    equal = 0
    decoded_steps = verified_steps = 0
    for case in cases:
        decoded = drafts.draft(case.request(tokens))
        verified = drafts.draft(replace(case.request(tokens), expected=decoded.token_ids))
        if verified.token_ids == decoded.token_ids and verified.ended == decoded.ended:
            equal += 1
        decoded_steps += decoded.steps
        verified_steps += verified.steps
    summary = (
        f"{equal} of {len(cases)} equal the decoded drafts, {verified_steps}/{decoded_steps} steps"
    )
    fix = "set debug.verify_drafts and debug.verify_transcripts to false, and report this output"
    bad: Status = "FAIL" if dtype == "float32" else "warn"
    return Check.judged("verified drafts", equal == len(cases), summary, fix, bad)


def ms_per_token(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> float:
    """Return the median time per token of drafts with attention rows, in ms, after a warm-up."""
    warm_up = [cases[0], cases[0]]
    figures: list[float] = []
    for case in [*warm_up, *cases, *cases]:
        start = time.perf_counter()
        draft = drafts.draft(case.request(tokens))
        elapsed_ms = 1000 * (time.perf_counter() - start)
        steps = draft.steps or len(draft.token_ids)
        figures.append(elapsed_ms / max(1, steps))
    return median(figures[len(warm_up) :])


def speed(drafts: DraftEngine, cases: Sequence[Case], tokens: int, chunk_ms: int) -> Check:
    """Time drafts with rows; a draft should take less time than a chunk."""
    per_token = ms_per_token(drafts, cases, tokens)
    longest = per_token * tokens
    summary = f"{per_token:.1f} ms per token; a draft of {tokens} tokens takes {longest:.0f} ms"
    if longest > chunk_ms:
        summary += f", more than a chunk of {chunk_ms} ms"
    fix = "raise chunk_ms, or run on a faster device"
    return Check.judged("speed", longest <= chunk_ms, summary, fix, "warn")


def pace(resolved: Resolved, engines: Engines) -> Check:
    """Measure how long a second of speech takes, and describe what follows from it."""
    target = resolved.config.target_language or next(iter(resolved.head_sets), "de")
    measured = seconds_per_second(resolved, engines, target)
    line, _, fix = describe(measured, resolved.config.chunk_ms).partition(". ")
    return Check.judged("pace", measured <= 1, line, fix, "warn")


def _end_to_end(engines: Engines) -> Check:
    """Transcribe one second of noise, and align two words with the same audio."""
    name = "end to end"
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    audio = (noise * 0.01).astype(np.float32)
    start = time.monotonic()
    text = engines.asr.transcribe(audio, "en").text
    transcribed = f"a second of noise was transcribed as {text!r}"
    if engines.aligner is None:
        return Check(name, "ok", f"{transcribed}, in {time.monotonic() - start:.2f} s")
    words = engines.aligner.align(audio, "hello world", "en")
    elapsed = time.monotonic() - start
    bounds: list[float] = []
    for word in words:
        bounds += [word.start, word.end]
    if len(words) != 2 or not np.isfinite(bounds).all() or bounds != sorted(bounds):
        fix = "set models.aligner to a Qwen3 forced aligner"
        return Check(name, "FAIL", f"two words were aligned as {words}", fix)
    return Check(name, "ok", f"{transcribed}, and two words were aligned, in {elapsed:.2f} s")
