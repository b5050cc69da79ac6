"""Rounds of the benchmark: all engines process the same prompts, one at a time, paired."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from statistics import geometric_mean
from typing import Any, TypeVar

import numpy as np
from scipy import stats
from tqdm import tqdm

from alignatt_agent.config.resources import find_path, read_lines
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt
from lab.bench.contenders import AGAIN, CAPTURE, EAGER_HF, IDLE, PLAIN, Contender

T = TypeVar("T")

Key = tuple[str, str]

COLD, WARM = "cold", "warm"
"""States of the prefix cache: no part of the prompt, or all its complete blocks."""

SPLITS = {
    "rows against plain": (CAPTURE, PLAIN, AGAIN),
    "idle capture against plain": (IDLE, PLAIN, AGAIN),
    "rows against idle capture": (CAPTURE, IDLE),
    "plain against another plain": (AGAIN, PLAIN),
}
"""Comparisons of compiled engines; the last one is the noise floor of the first two."""

DEVSET = "micro_models/devset"

LENGTHS = {"short": 60, "medium": 180, "long": 420}
"""Number of tokens of a prompt, including the accepted prefix."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A prompt and the number of tokens to draft."""

    name: str
    prompt: Prompt
    tokens: int


Race = dict[Key, list[float]]
"""Milliseconds per token; entry ``i`` of all lists belongs to the same prompt and turn."""


def race(
    contenders: Sequence[Contender],
    prompts: Sequence[BenchPrompt],
    nonces: Nonces,
    seconds: float,
    title: str,
) -> Race:
    """Time all contenders in turn on one prompt after another until ``seconds`` are over."""
    times: Race = defaultdict(list)
    # Every contender drafts once before the timing starts, and every prompt is used in turn.
    for contender in contenders:
        contender.milliseconds(prompts[-1].prompt, prompts[-1].tokens)
    end, turn = time.perf_counter() + seconds, 0
    with tqdm(desc=title, unit="turn") as bar:
        while turn < len(prompts) or time.perf_counter() < end:
            order = turn_order(contenders, turn, len(prompts))
            _one_turn(times, order, prompts[turn % len(prompts)], nonces)
            turn += 1
            bar.update()
    return times


def turn_order(contenders: Sequence[T], turn: int, prompts: int) -> list[T]:
    """Return the contenders in the order of one turn."""
    # The order rotates and is reversed after every full rotation: two contenders run as in ``ab ba
    # ba ab``. It advances by one per round, so that every prompt gets all orders.
    step = turn + turn // prompts
    shift = step % len(contenders)
    order = [*contenders[shift:], *contenders[:shift]]
    full_rotations = step // len(contenders)
    if full_rotations % 2 == 1:
        order.reverse()
    return order


def _one_turn(
    times: Race, order: Sequence[Contender], bench_prompt: BenchPrompt, nonces: Nonces
) -> None:
    # A cold draft gets a prompt that its engine never saw, the same one for all contenders;
    # those that share an engine get one each. A warm draft repeats it.
    variants: dict[int, Prompt] = defaultdict(lambda: nonces.fresh(bench_prompt.prompt))
    used: Counter[int] = Counter()
    for contender in order:
        engine = id(contender.served or contender)
        prompt = variants[used[engine]]
        used[engine] += 1
        # Transformers has no prefix cache, so it is always cold.
        states = (COLD, WARM) if contender.served else (COLD,)
        for state in states:
            milliseconds = contender.milliseconds(prompt, bench_prompt.tokens)
            times[contender.name, state].append(milliseconds)


# ------------------------------------------------------------------ statistics
def spread(figures: Sequence[float]) -> dict[str, float]:
    """Return median, quartiles and number of figures."""
    q1, median, q3 = (float(value) for value in np.percentile(figures, [25, 50, 75]))
    return {"median": median, "q1": q1, "q3": q3, "count": len(figures)}


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Summarise the ratios ``ours / theirs`` of pairs; disturbances of both cancel out."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def slower(races: Sequence[Race], ours: Key, baselines: Sequence[Key]) -> dict[str, Any]:
    """Estimate the additional time of a contender in percent, with a 95 % interval over starts."""
    ratios = []
    for times in races:
        medians = [paired_ratio(times[ours], times[key])["median"] for key in baselines]
        ratios.append(geometric_mean(medians))
    # Ratios are averaged as logarithms, so that twice and half as slow cancel out.
    logs = np.log(ratios)
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    return {
        "percent": _percent(logs.mean()),
        "low": _percent(interval.low),
        "high": _percent(interval.high),
        "by_start": [100 * (ratio - 1) for ratio in ratios],
    }


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def race_figures(races: Sequence[Race]) -> dict[str, Any]:
    """Summarise all races: milliseconds per token, and ratios to the baselines, pair by pair."""
    times: Race = {key: [] for key in races[0]}
    for key, values in times.items():
        for start in races:
            values += start[key]
    figures: dict[str, Any] = {}
    for (name, state), values in times.items():
        entry = {"ms_per_token": spread(values)}
        mode = name.rpartition(", ")[2]  # eager or compiled
        plain = (f"{PLAIN}, {mode}", state)
        if plain in times:
            entry["ratio_to_plain"] = paired_ratio(values, times[plain])
        transformers = (EAGER_HF, state)
        if transformers in times:
            entry["ratio_to_transformers_eager"] = paired_ratio(values, times[transformers])
        figures[f"{name}, {state}"] = entry
    return figures


def percentages(races: Sequence[Race]) -> dict[str, Any]:
    """Make the comparisons of ``SPLITS``, cold and warm."""
    comparisons = {}
    for (name, engines), state in product(SPLITS.items(), (COLD, WARM)):
        ours, *baselines = [(f"{engine}, compiled", state) for engine in engines]
        comparisons[f"{name}, {state}"] = slower(races, ours, baselines)
    return comparisons


# ------------------------------------------------------------------ prompts
def bench_prompts(tokenizer: Any, number: int = 16) -> list[BenchPrompt]:
    """Build the prompts: short, medium and long in turn, every other triple with a prefix."""
    builder = PromptBuilder(tokenizer, "English", "German")
    references = find_path(DEVSET) / "ref"
    english = read_lines(references / "en.txt")
    german = read_lines(references / "de.txt")
    prompts: list[BenchPrompt] = []
    for i in range(number):
        name = list(LENGTHS)[i % 3]
        length = LENGTHS[name]
        first = 5 * i % len(english)
        words = " ".join(english[first:] + english[:first]).split() * 4
        prefix: list[int] = []
        if i // 3 % 2 == 1:
            prefix = tokenizer.encode(german[first], add_special_tokens=False)[: 6 + i % 4]
            name = f"{name}+prefix"
        prompt = _fitted(builder, words, prefix, length)
        tokens = 20 if i < 3 else 16 + i % 5
        prompts.append(BenchPrompt(name, prompt, tokens))
    return prompts


def _fitted(builder: PromptBuilder, words: list[str], prefix: list[int], length: int) -> Prompt:
    """Build a prompt of as many words as ``length`` tokens hold, then cut its source to fit."""
    number = 1
    prompt = builder.build(words[:number], prefix)
    while len(prompt.token_ids) < length:
        number += 1
        prompt = builder.build(words[:number], prefix)
    end, surplus = prompt.source_end, len(prompt.token_ids) - length
    return replace(
        prompt,
        token_ids=prompt.token_ids[: end - surplus] + prompt.token_ids[end:],
        token_word=prompt.token_word[: len(prompt.token_word) - surplus],
    )


class Nonces:
    """Creates variants of prompts that no engine has seen, so that no block is cached."""

    def __init__(self, vocabulary: int) -> None:
        self._low = vocabulary // 2
        self._numbers = count()

    def fresh(self, prompt: Prompt) -> Prompt:
        """Replace two tokens of the system prompt."""
        first, second = divmod(next(self._numbers), self._low)
        nonce = (self._low + first % self._low, self._low + second)
        return replace(prompt, token_ids=(*prompt.token_ids[:1], *nonce, *prompt.token_ids[3:]))
