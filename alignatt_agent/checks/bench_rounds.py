"""A race: all contenders on the same prompts, one at a time, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tqdm import tqdm

from alignatt_agent.checks.bench_contenders import Contender
from alignatt_agent.checks.bench_prompts import BenchPrompt, Nonces

T = TypeVar("T")

COLD, WARM = "cold", "warm"
"""Nothing of the prompt in the prefix cache, or all its whole blocks."""


@dataclass
class Race:
    """Paired timings: entry ``i`` of every list was taken on the same prompt in the same round.

    Attributes:
        milliseconds: per token, by ``(contender, COLD or WARM)``.
        prompts: the prompt of each entry.
        engine_cpu: processor milliseconds that the engine of each used, per token on average.
        busy: seconds that were timed.
        idle_cpu: processor seconds that engines used while others were timed.
    """

    milliseconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    prompts: list[BenchPrompt] = field(default_factory=list)
    engine_cpu: dict[tuple[str, str], float] = field(default_factory=dict)
    busy: float = 0.0
    idle_cpu: float = 0.0

    def note(self, key: tuple[str, str], milliseconds: float, cpu_milliseconds: float) -> None:
        """Enter one draft, both figures per token."""
        figures = self.milliseconds.setdefault(key, [])
        figures.append(milliseconds)
        mean = self.engine_cpu.get(key, 0.0)
        self.engine_cpu[key] = mean + (cpu_milliseconds - mean) / len(figures)

    def of(
        self, name: str, state: str, wanted: Callable[[BenchPrompt], bool] | None = None
    ) -> list[float]:
        """Return the timings of a contender, on the ``wanted`` prompts or on all."""
        figures = self.milliseconds.get((name, state), [])
        pairs = zip(figures, self.prompts, strict=True) if figures else ()
        return [figure for figure, prompt in pairs if wanted is None or wanted(prompt)]


def race(
    contenders: Sequence[Contender],
    prompts: Sequence[BenchPrompt],
    nonces: Nonces,
    seconds: float,
    title: str,
) -> Race:
    """Time all contenders in turn on one prompt after another until ``seconds`` are over.

    Every prompt has its turn at least once. One contender runs at a time, in the order of
    ``turn_order``. Every contender drafts before anything is timed. A cold draft gets a variant
    of the prompt that was never seen, the same one for all; contenders that share an engine get
    one each. Only engines with a prefix cache have a warm state; a warm draft follows another
    one of the same contender.
    """
    result = Race()
    for contender in tqdm(contenders, desc=f"{title}: warming up", leave=False):
        contender.milliseconds(prompts[-1].prompt, prompts[-1].tokens)
    end = time.perf_counter() + seconds
    turn = 0
    with tqdm(total=round(seconds), desc=f"{title}: timing", unit="s") as bar:
        while turn < len(prompts) or time.perf_counter() < end:
            prompt, order = prompts[turn % len(prompts)], turn_order(contenders, turn, len(prompts))
            _one_turn(result, order, prompt, nonces)
            result.prompts.append(prompt)
            turn += 1
            bar.update(min(round(seconds - (end - time.perf_counter())), bar.total) - bar.n)
    return result


def turn_order(contenders: Sequence[T], turn: int, prompts: int) -> list[T]:
    """Return the contenders in the order of one turn.

    The order rotates, and turns round after every full rotation: two contenders run as in
    ``ab ba ba ab``. It moves on by one from round to round, so that a prompt sees all orders.
    """
    step = turn + turn // prompts
    shift = step % len(contenders)
    order = [*contenders[shift:], *contenders[:shift]]
    return order[::-1] if step // len(contenders) % 2 else order


def _one_turn(
    result: Race,
    order: Sequence[Contender],
    prompt: BenchPrompt,
    nonces: Nonces,
) -> None:
    variants = [nonces.fresh(prompt.prompt)]
    used: dict[int, int] = {}
    owners = {id(c.owner): c.owner for c in order if c.owner is not None}
    for contender in order:
        place = used.get(id(contender.owner), 0) if contender.owner else 0
        used[id(contender.owner)] = place + 1
        if place == len(variants):
            variants.append(nonces.fresh(prompt.prompt))
        idle = [owner for owner in owners.values() if owner is not contender.owner]
        idled = sum(owner.cpu_seconds() for owner in idle)
        start = time.perf_counter()
        for state in (COLD, WARM) if contender.owner else (COLD,):
            before = contender.cpu_seconds()
            figure = contender.milliseconds(variants[place], prompt.tokens)
            spent = 1000 * (contender.cpu_seconds() - before) / prompt.tokens
            result.note((contender.name, state), figure, spent)
        result.busy += time.perf_counter() - start
        result.idle_cpu += sum(owner.cpu_seconds() for owner in idle) - idled
