"""The duel: what capture costs, over several starts of every engine.

Two processes of the very same engine differ by some percent from one start to the next, which is
more than capture costs. Each round therefore starts its engines afresh, two of them plain: how the
two differ is the noise floor of what is said about the capturing one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from alignatt_agent.checks.bench_contenders import Contender, Running, Size, running
from alignatt_agent.checks.bench_prompts import BenchPrompt, Nonces
from alignatt_agent.checks.bench_rounds import COLD, WARM, Race, race
from alignatt_agent.checks.bench_statistics import Estimate, estimate, paired_ratio, spread
from alignatt_agent.engine.options import engine_environment, on_cpu
from alignatt_agent.types import Readout

PLAIN, OTHER, IDLE, ROWS = "plain", "another plain", "capture, no rows wanted", "capture, rows"

SPLITS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rows against plain": (ROWS, (PLAIN, OTHER)),
    "idle capture against plain": (IDLE, (PLAIN, OTHER)),
    "rows against idle capture": (ROWS, (IDLE,)),
    "plain against another plain": (OTHER, (PLAIN,)),
}
"""Who is compared with whom; the last is the noise floor of the first two."""

MEASURED, *_, FLOOR = SPLITS


def duel(
    size: Size, prompts: Sequence[BenchPrompt], nonces: Nonces, starts: int, seconds: float
) -> list[Race]:
    """Race two plain engines and a capturing one, compiled; all are started anew each round.

    They start side by side, on a GPU one after the other: there each measures free memory.

    Args:
        size: which model.
        prompts: of every round.
        nonces: for cold drafts.
        starts: rounds.
        seconds: least length of a round's race.
    """
    rounds = []
    heads = {PLAIN: (), ROWS: size.heads, OTHER: ()}
    for number in tqdm(range(starts), desc=f"{size.name}: duel"):
        kinds = [*heads][number % 3 :] + [*heads][: number % 3]
        with contextlib.ExitStack() as stack:
            with engine_environment(), ThreadPoolExecutor(len(kinds) if on_cpu() else 1) as pool:
                contexts = [running(size, heads[kind], eager=False) for kind in kinds]
                engines = dict(zip(kinds, pool.map(stack.enter_context, contexts), strict=True))
            contenders = _contenders(engines, Readout(size.heads, "predicting"))
            rounds.append(race(contenders, prompts, nonces, seconds, f"{size.name}, duel"))
    return rounds


def _contenders(engines: Mapping[str, Running], readout: Readout) -> list[Contender]:
    """Return the four; those that share an engine are never neighbours, whoever comes first."""
    plain, other, capture = (engines[kind] for kind in (PLAIN, OTHER, ROWS))
    return [
        Contender(IDLE, capture.drafts, owner=capture),
        Contender(PLAIN, plain.drafts, owner=plain),
        Contender(ROWS, capture.drafts, readout, owner=capture),
        Contender(OTHER, other.drafts, owner=other),
    ]


def split(rounds: Sequence[Race], name: str, state: str) -> Estimate:
    """Estimate one of ``SPLITS``, in percent, from one figure a round.

    Args:
        rounds: of ``duel``.
        name: key of ``SPLITS``.
        state: ``COLD`` or ``WARM``.
    """
    ours, baselines = SPLITS[name]
    figures = []
    for one in rounds:
        ratios = [
            paired_ratio(one.of(ours, state), one.of(base, state)).median for base in baselines
        ]
        figures.append(math.prod(ratios) ** (1 / len(ratios)))
    return estimate(figures)


def duel_figures(rounds: Sequence[Race]) -> dict[str, Any]:
    """Summarise a duel for the report."""
    return {
        "turns": [len(one.prompts) for one in rounds],
        "ms_per_token": {
            f"{who}, {state}": [spread(one.of(who, state)).median for one in rounds]
            for who in (PLAIN, OTHER, IDLE, ROWS)
            for state in (COLD, WARM)
        },
        "percent": {
            f"{name}, {state}": asdict(split(rounds, name, state))
            for name in SPLITS
            for state in (COLD, WARM)
        },
    }
