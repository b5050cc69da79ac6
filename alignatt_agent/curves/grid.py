"""The runs of a sweep: policies over their own parameters, and the ablations of the gate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from alignatt_agent.config.agent_config import AgentConfig

Settings = dict[str, Any]
Size = Literal["quick", "full"]

ALIGNATT = "alignatt"
SINGLE = "alignatt, n 1"
PAPER = "alignatt, n 1, paper's filters"
AGREEMENT = "local_agreement"
RIVALS = ("hold_n", AGREEMENT)
CURVES = (ALIGNATT, SINGLE, PAPER, *RIVALS, "none")
"""Every curve, in the order of legends and tables."""

PAPER_FILTERS: Settings = {"policy.normalise": "zscore", "policy.median_width": 7}
OPERATING = ("low", "high")


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Attributes:
        name: folder of the run.
        curve: the policy that it belongs to.
        label: its parameters, for readers.
        base: the operating point whose configuration it changes.
        settings: dotted keys and their values.
    """

    name: str
    curve: str
    label: str
    base: str = "low"
    settings: Settings = field(default_factory=dict, hash=False)

    def config(self, bases: dict[str, AgentConfig]) -> AgentConfig:
        """Return its configuration; drafts are whole, so that runs can share them."""
        raw = bases[self.base].model_dump()
        for key, value in {**self.settings, "early_stop": False}.items():
            *parents, last = key.split(".")
            target = raw
            for parent in parents:
                target = target[parent]
            target[last] = value
        return AgentConfig.parse(raw, self.name)


Values = Sequence[int]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Blocks of parameters, every combination of a block being a run; times in milliseconds.

    Attributes:
        gate: numbers of drafts that have to agree, chunks, hold-backs and border margins.
        paper: the same with the paper's filters.
        hold_n: n and chunks.
        agreement: the same.
        none: chunks.
    """

    gate: Sequence[tuple[Values, Values, Values, Values]]
    paper: Sequence[tuple[Values, Values, Values, Values]]
    hold_n: Sequence[tuple[Values, Values]]
    agreement: Sequence[tuple[Values, Values]]
    none: Values


_GRIDS: dict[Size, _Grid] = {
    "quick": _Grid(
        gate=[
            ((1, 2), (250,), (0,), (-4, -3, -2)),
            ((2, 3), (500,), (0,), (-4, -2)),
            ((1,), (850,), (200,), (-1,)),
        ],
        paper=[((1,), (850,), (0,), (1,))],
        hold_n=[((4, 8), (500,)), ((8,), (850,))],
        agreement=[((3, 4, 5, 6), (250,)), ((2, 3, 4, 5), (500,)), ((2,), (850, 1500))],
        none=(850,),
    ),
    "full": _Grid(
        gate=[
            ((1, 2), (250,), (0,), (-4, -3, -2, -1)),
            ((1, 2, 3), (500,), (0,), (-4, -3, -2)),
            ((3,), (500,), (0,), (-5,)),
            ((1,), (850,), (0, 200), (-2, -1)),
            ((2,), (850,), (0,), (-3, -1)),
            ((1,), (1500,), (0, 800), (-1,)),
        ],
        paper=[((1,), (250,), (0,), (-4, -3, -2)), ((1,), (850,), (0, 500), (-2, 1))],
        hold_n=[((2, 4, 6, 8, 10), (500,)), ((4, 8, 12), (250,)), ((4, 8), (850, 1500))],
        agreement=[
            ((2, 3, 4, 5, 6), (250,)),
            ((2, 3, 4, 5), (500,)),
            ((2, 3, 4), (850,)),
            ((2, 3), (1500,)),
            ((2,), (2500,)),
        ],
        none=(500, 1500),
    ),
}


def sweep(size: Size) -> list[Point]:
    """Return the two operating points and the grid of every policy."""
    grid = _GRIDS[size]
    points = [Point(f"operating-{name}", ALIGNATT, name, name) for name in OPERATING]
    points += _gate(grid.gate)
    points += _gate(grid.paper, PAPER)
    for curve, blocks in zip(RIVALS, (grid.hold_n, grid.agreement), strict=True):
        points += [
            _rival(curve, chunk, {"policy.n": n}, f"n {n}")
            for numbers, chunks in blocks
            for n in numbers
            for chunk in chunks
        ]
    points += [_rival("none", chunk, {}, "whole drafts") for chunk in grid.none]
    return points


def _gate(
    blocks: Sequence[tuple[Values, Values, Values, Values]], curve: str | None = None
) -> Iterator[Point]:
    for n, chunk, hold, margin in itertools.chain(*(itertools.product(*b) for b in blocks)):
        slug = "paper" if curve == PAPER else "alignatt"
        yield Point(
            f"{slug}-n{n}-c{chunk}-h{hold}-b{margin}",
            curve or (SINGLE if n == 1 else ALIGNATT),
            f"n {n}, margin {margin}, hold-back {hold}, chunk {chunk}",
            settings={
                "policy.name": "alignatt",
                "policy.n": n,
                "chunk_ms": chunk,
                "speech.hold_back_ms": hold,
                "policy.border_margin": margin,
                **(PAPER_FILTERS if curve == PAPER else {}),
            },
        )


def _rival(curve: str, chunk: int, settings: Settings, label: str) -> Point:
    number = "".join(f"-n{value}" for value in settings.values())
    return Point(
        f"{curve}-c{chunk}{number}",
        curve,
        f"{label}, chunk {chunk}",
        # Rivals do not look at the frontier, so nothing is gained by moving it.
        settings={
            "policy.name": curve,
            "chunk_ms": chunk,
            "speech.hold_back_ms": 0,
            "speech.stable_only": False,
            **settings,
        },
    )
