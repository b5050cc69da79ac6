"""Rounds of the benchmark: all engines process the same prompts, one at a time, paired."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, product
from statistics import geometric_mean
from typing import Any, TypeVar

import numpy as np
from scipy import stats
from tqdm import tqdm

from alignatt_agent.config.resources import find_path
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
    found: Race = defaultdict(list)
    # Every contender drafts once before the timing starts, and every prompt is used in turn.
    for contender in contenders:
        contender.milliseconds(prompts[-1].prompt, prompts[-1].tokens)
    end, turn = time.perf_counter() + seconds, 0
    with tqdm(desc=title, unit="turn") as bar:
        while turn < len(prompts) or time.perf_counter() < end:
            order = turn_order(contenders, turn, len(prompts))
            _one_turn(found, order, prompts[turn % len(prompts)], nonces)
            turn += 1
            bar.update()
    return found


def turn_order(contenders: Sequence[T], turn: int, prompts: int) -> list[T]:
    """Return the contenders in the order of one turn."""
    # The order rotates and is reversed after every full rotation: two contenders run as in ``ab ba
    # ba ab``. It advances by one per round, so that every prompt gets all orders.
    step = turn + turn // prompts
    shift = step % len(contenders)
    order = [*contenders[shift:], *contenders[:shift]]
    return order[::-1] if step // len(contenders) % 2 else order


def _one_turn(found: Race, order: Sequence[Contender], item: BenchPrompt, nonces: Nonces) -> None:
    # A cold draft gets a prompt that its engine never saw, the same one for all contenders;
    # those that share an engine get one each. A warm draft repeats it.
    variants: dict[int, Prompt] = defaultdict(lambda: nonces.fresh(item.prompt))
    used: Counter[int] = Counter()
    for contender in order:
        engine = id(contender.served or contender)
        prompt = variants[used[engine]]
        used[engine] += 1
        for state in (COLD, WARM) if contender.served else (COLD,):
            figure = contender.milliseconds(prompt, item.tokens)
            found[contender.name, state].append(figure)


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
    for found in races:
        pairs = [paired_ratio(found[ours], found[baseline])["median"] for baseline in baselines]
        ratios.append(geometric_mean(pairs))
    logs = np.log(ratios)
    around = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    percent, low, high = (100 * math.expm1(x) for x in (logs.mean(), *around))
    by_start = [100 * (ratio - 1) for ratio in ratios]
    return {"percent": percent, "low": low, "high": high, "by_start": by_start}


def race_figures(races: Sequence[Race]) -> dict[str, Any]:
    """Summarise all races: milliseconds per token, and ratios to the baselines, pair by pair."""
    times = {key: [*chain.from_iterable(found[key] for found in races)] for key in races[0]}
    figures: dict[str, Any] = {}
    for (name, state), values in times.items():
        entry = figures[f"{name}, {state}"] = {"ms_per_token": spread(values)}
        plain = f"{PLAIN}, {name.rpartition(', ')[2]}", state
        for baseline, key in (("plain", plain), ("transformers_eager", (EAGER_HF, state))):
            if key in times:
                entry[f"ratio_to_{baseline}"] = paired_ratio(values, times[key])
    return figures


def percentages(races: Sequence[Race]) -> dict[str, Any]:
    """Make the comparisons of ``SPLITS``, cold and warm."""
    found = {}
    for (name, engines), state in product(SPLITS.items(), (COLD, WARM)):
        ours, *baselines = ((f"{engine}, compiled", state) for engine in engines)
        found[f"{name}, {state}"] = slower(races, ours, baselines)
    return found


# ------------------------------------------------------------------ prompts
def bench_prompts(tokenizer: Any, number: int = 16) -> list[BenchPrompt]:
    """Build the prompts: short, medium and long in turn, every other triple with a prefix."""
    builder = PromptBuilder(tokenizer, "English", "German")
    english, german = (
        (find_path(DEVSET) / "ref" / f"{code}.txt").read_text(encoding="utf-8").splitlines()
        for code in ("en", "de")
    )
    prompts = []
    for i in range(number):
        kind, with_prefix, first = list(LENGTHS)[i % 3], i // 3 % 2 == 1, 5 * i % len(english)
        words = " ".join(english[first:] + english[:first]).split() * 4
        prefix = tokenizer.encode(german[first], add_special_tokens=False)[: 6 + i % 4]
        prompt = _fitted(builder, words, prefix if with_prefix else [], LENGTHS[kind])
        name = f"{kind}+prefix" if with_prefix else kind
        prompts.append(BenchPrompt(name, prompt, 20 if i < 3 else 16 + i % 5))
    return prompts


def _fitted(builder: PromptBuilder, words: list[str], prefix: list[int], length: int) -> Prompt:
    """Build a prompt of as many words as ``length`` tokens hold, then cut its source to fit."""
    taken = next(n for n in count(1) if len(builder.build(words[:n], prefix).token_ids) >= length)
    prompt = builder.build(words[:taken], prefix)
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
