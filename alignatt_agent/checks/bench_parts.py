"""What a race does not show: the parts of a captured draft, concurrent streams, early stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from alignatt_agent.checks.bench_contenders import (
    Contender,
    Running,
    Size,
    maintained_policy,
)
from alignatt_agent.checks.bench_prompts import BenchPrompt, Nonces, sentences, streamed
from alignatt_agent.checks.bench_statistics import paired_difference, spread
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.speech_models import stop_ids
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Draft, Prompt, Readout


def replay_cost(
    running: Running, heads: Sequence[tuple[int, int]], prompts: Sequence[BenchPrompt], rounds: int
) -> dict[str, Any]:
    """Take a captured draft apart, in milliseconds per draft.

    Returns:
        ``begin``, ``finish`` and ``fetch`` inside the worker, and their sum as ``replay``; the
        same in processor time as ``replay_cpu``, which other programs disturb less; ``call``, an
        empty remote call; ``whole``, the paired difference between drafts with rows and without.
    """
    readout = Readout(tuple(heads), "predicting")
    plain = Contender("plain", running.drafts, owner=running)
    rows = Contender("rows", running.drafts, readout, owner=running)
    pairs: tuple[list[float], list[float]] = ([], [])
    for prompt in prompts:
        rows.milliseconds(prompt.prompt, prompt.tokens)
    running.model.ask_workers("alignatt_start_clock")
    for turn in range(rounds):
        for prompt in prompts:
            for contender in (plain, rows)[:: -1 if turn % 2 else 1]:
                figure = contender.milliseconds(prompt.prompt, prompt.tokens) * prompt.tokens
                pairs[contender is rows].append(figure)
    clocks = running.model.ask_workers("alignatt_stop_clock")
    drafts = rounds * len(prompts)
    phases = {
        phase: 1000 * max(clock[phase][1] for clock in clocks) / drafts for phase in clocks[0]
    }
    calls = []
    for _ in range(50):
        start = time.perf_counter()
        running.model.ask_workers("alignatt_held")
        calls.append(1000 * (time.perf_counter() - start))
    return {
        "heads": len(heads),
        "steps": clocks[0]["finish"][0] / drafts,
        **phases,
        "replay": sum(phases.values()),
        **{f"{phase}_cpu": 1000 * clock[2] / drafts for phase, clock in clocks[0].items()},
        "replay_cpu": 1000 * sum(clock[2] for clock in clocks[0].values()) / drafts,
        "call": spread(calls).median,
        "whole": paired_difference(pairs[1], pairs[0]).median,
        "drafts": drafts,
    }


def streams(
    running: Running,
    readout: Readout,
    prompt: BenchPrompt,
    nonces: Nonces,
    seconds: float,
    title: str,
) -> Iterator[dict[str, float]]:
    """Measure throughput with 1, 2, 4, 8 and 16 streams that draft without a pause.

    Every stream has a variant of the prompt of its own, which is cached.
    """
    for count in tqdm((1, 2, 4, 8, 16), desc=f"{title}: streams"):
        done: list[int] = []
        variants = [nonces.fresh(prompt.prompt) for _ in range(count)]
        for variant in variants:
            running.drafts.draft(variant, 1, readout)
        start = time.perf_counter()

        def stream(variant: Prompt, start: float = start, done: list[int] = done) -> None:
            while time.perf_counter() - start < seconds:
                done.append(len(running.drafts.draft(variant, prompt.tokens, readout).token_ids))

        pool = [threading.Thread(target=stream, args=(variant,)) for variant in variants]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        elapsed = time.perf_counter() - start
        yield {
            "streams": count,
            "tokens_per_s": sum(done) / elapsed,
            "drafts_per_s": len(done) / elapsed,
        }


def early_stop(
    running: Running, size: Size, readout: Readout, tokenizer: Any, number: int
) -> dict[str, Any]:
    """Compare early stop with draft-then-scan on prompts as a stream makes them.

    Args:
        running: an engine that captures the readout's heads.
        size: its model.
        readout: what the gate reads.
        tokenizer: of the model.
        number: dev sentences to stream.

    Returns:
        For each of the two: steps and milliseconds per accepted and per generated token.

    Raises:
        RuntimeError: the two decide differently.
    """
    drafts = DraftEngine(running.model, size.heads, stop_ids(running.model))
    policy, totals = maintained_policy(), {"draft-then-scan": _Total(), "early stop": _Total()}
    listed = list(_streamed_prompts(drafts, readout, tokenizer, number))
    for turn, (prompt, frontier) in enumerate(tqdm(listed, desc=f"{size.name}: early stop")):
        tokens = {}
        for name in list(totals)[:: -1 if turn % 2 else 1]:
            gate = policy.gate(frontier) if name == "early stop" else None
            start = time.perf_counter()
            draft = drafts.draft(prompt, 16, readout, gate)
            elapsed = time.perf_counter() - start
            accepted = policy.decide(draft, frontier).accepted
            tokens[name] = draft.token_ids[:accepted]
            totals[name].add(draft, accepted, elapsed)
        if len(set(tokens.values())) > 1:
            raise RuntimeError(f"early stop and draft-then-scan accept different tokens: {tokens}")
    return {name: total.figures() for name, total in totals.items()}


def _streamed_prompts(
    drafts: DraftEngine, readout: Readout, tokenizer: Any, number: int
) -> Iterator[tuple[Prompt, int]]:
    """Yield prompts and frontiers; what was accepted so far is the prefix of the next prompt."""
    builder, policy = PromptBuilder(tokenizer, "English", "German"), maintained_policy()
    for source, _ in sentences()[:number]:
        accepted: tuple[int, ...] = ()
        for words, accessible in streamed(source):
            prompt = builder.build(words, accepted)
            frontier = sum(word < accessible for word in prompt.token_word)
            yield prompt, frontier
            draft = drafts.draft(prompt, 16, readout)
            accepted += draft.token_ids[: policy.decide(draft, frontier).accepted]


@dataclass
class _Total:
    steps: int = 0
    generated: int = 0
    accepted: int = 0
    seconds: float = 0.0

    def add(self, draft: Draft, accepted: int, seconds: float) -> None:
        """Count one draft."""
        self.steps += draft.steps
        self.generated += len(draft.token_ids)
        self.accepted += accepted
        self.seconds += seconds

    def figures(self) -> dict[str, float]:
        """Return the ratios; an engine that accepts nothing has made none."""
        accepted, generated = max(1, self.accepted), max(1, self.generated)
        return {
            "accepted_tokens": self.accepted,
            "steps_per_accepted_token": self.steps / accepted,
            "ms_per_accepted_token": 1000 * self.seconds / accepted,
            "ms_per_generated_token": 1000 * self.seconds / generated,
        }
