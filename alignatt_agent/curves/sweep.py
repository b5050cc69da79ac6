"""Streams every run of a sweep; what an earlier call finished is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.resolved import resolve
from alignatt_agent.curves.grid import Point
from alignatt_agent.curves.remembered import remember
from alignatt_agent.curves.stream import ReplayAgent, write_log
from alignatt_agent.evaluation.cache import Memo
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.types import Readout

Heads = Sequence[tuple[int, int]]
StartEngines = Callable[[ModelsConfig, Heads], Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One point on one target language.

    Attributes:
        point: what runs.
        target: code of the target language.
        config: its configuration.
        folder: its files.
    """

    point: Point
    target: str
    config: AgentConfig
    folder: Path

    @property
    def yaml(self) -> Path:
        """Resolved configuration; also OmniSTEval's."""
        return self.folder / "agent.yaml"

    @property
    def log(self) -> Path:
        """Simulstream's metrics log."""
        return self.folder / "metrics.jsonl"

    @property
    def stamp(self) -> Path:
        """What the log was made from."""
        return self.folder / "stamp.json"


@dataclass(frozen=True, slots=True)
class Material:
    """What all runs of a sweep have in common.

    Attributes:
        devset: checked dev set.
        source: code of the spoken language.
        models: the checkpoints on this machine.
        names: by role, what identifies a checkpoint and how it runs.
        memo: file of the memo; its name says which engine computed what it holds.
    """

    devset: DevSet
    source: str
    models: ModelsConfig
    names: dict[str, str]
    memo: Path

    def stamp(self, run: Run) -> dict[str, Any]:
        """Return everything that the log of ``run`` depends on."""
        digest = hashlib.sha256()
        for talk in self.devset.talks:
            digest.update(talk.wav.read_bytes())
        head_set = run.config.head_sets.get(run.target)
        return {
            "config": run.config.for_target(run.target).model_dump(mode="json"),
            "models": self.names,
            "engine": self.memo.name,
            "head_set": repr(load_head_set(head_set)) if head_set else None,
            "audio": digest.hexdigest(),
        }


def runs_of(
    points: Iterable[Point], targets: Sequence[str], bases: dict[str, AgentConfig], folder: Path
) -> list[Run]:
    """Return one run for every target and point, target by target."""
    chosen = [(point, point.config(bases)) for point in points]
    return [
        Run(point, target, config, folder / target / point.name)
        for target in targets
        for point, config in chosen
    ]


def stream(
    runs: Sequence[Run],
    material: Material,
    start_engines: StartEngines,
    agent: type[AlignAttAgent] = ReplayAgent,
    title: str = "streaming",
) -> int:
    """Stream the runs whose log is missing or made from something else.

    Args:
        runs: what to stream.
        material: dev set, models and memo.
        start_engines: loads the engines; not called when nothing is missing.
        agent: class of the agent, with the class method ``give``.
        title: label of the progress bar.

    Returns:
        The number of runs that were streamed.

    Raises:
        EngineError: an engine failed; logs that are complete stay.
    """
    stamps = [json.dumps(material.stamp(run), sort_keys=True) for run in runs]
    missing = [(run, stamp) for run, stamp in zip(runs, stamps, strict=True) if stale(run, stamp)]
    if not missing:
        return 0
    shared = shared_readouts(runs)
    heads = sorted({head for readout in shared for head in readout.heads})
    memo = Memo(material.memo)
    give: Callable[[Any], None] = getattr(agent, "give")  # noqa: B009  # not of the base class
    try:
        give(remember(start_engines(material.models, heads), memo, material.names, shared))
        wavs = [talk.wav for talk in material.devset.talks]
        with tqdm(missing, desc=title, unit="run") as bar:
            for run, stamp in bar:
                bar.set_postfix_str(f"{run.target} {run.point.name}, {memo.computed} computed")
                run.folder.mkdir(parents=True, exist_ok=True)
                run.log.unlink(missing_ok=True)
                run.yaml.write_text(run.config.for_target(run.target).to_yaml(), encoding="utf-8")
                run.stamp.write_text(stamp, encoding="utf-8")
                write_log(run.yaml, wavs, (material.source, run.target), memo, run.log, agent)
    finally:
        give(None)
        memo.close()
    return len(missing)


def stale(run: Run, stamp: str) -> bool:
    """Whether the log of ``run`` is missing or was made from something else."""
    if not (run.log.is_file() and run.stamp.is_file()):
        return True
    return run.stamp.read_text(encoding="utf-8") != stamp


def shared_readouts(runs: Sequence[Run]) -> list[Readout]:
    """Return the widest readout of every head set, by which all its runs share drafts."""
    widest: dict[str, int] = {}
    for run in runs:
        resolve(run.config, [run.target])
        name = run.config.head_sets.get(run.target)
        if name is not None:
            widest[name] = max(widest.get(name, 0), run.config.policy.top_k)
    return [load_head_set(name).readout(k) for name, k in widest.items()]
