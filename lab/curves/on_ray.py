"""The runs of a sweep on a cluster: a talk of a run is a job, and a worker remembers its talks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade import load_engines, shutdown
from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.workers import Job, Workers
from alignatt_agent.config.agent_config import ModelsConfig
from alignatt_agent.config.checkpoints import locate
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.evaluation.devset import Talk
from alignatt_agent.evaluation.on_ray import Errand, Part, stream_on, stream_talk
from alignatt_agent.evaluation.run import prepare
from alignatt_agent.types import EngineError, Readout
from lab.curves.engine_cache import cached
from lab.curves.runs import Run, StartEngines, names_of, shared_readouts


@dataclass(frozen=True, slots=True)
class Setup:
    """What the streams of a sweep share.

    Attributes:
        models: their checkpoints.
        names: what identifies each and how it runs, by role.
        readouts: that serve every request for some of their heads.
        start_engines: loads engines for a set of heads.
    """

    models: ModelsConfig
    names: Mapping[str, str]
    readouts: tuple[Readout, ...]
    start_engines: StartEngines


class OnRay:
    """Where a study runs: workers of a cluster, whose engines stay until the study is done.

    Args:
        cluster: where they are.
        talks: of the dev set; more workers would have nothing to do.
        start_engines: loads engines for a set of heads; importable.
    """

    def __init__(
        self, cluster: ClusterOptions, talks: int, start_engines: StartEngines = load_engines
    ) -> None:
        self._cluster, self._talks, self._start_engines = cluster, talks, start_engines

    def __enter__(self) -> OnRay:
        with ExitStack() as stack:
            stack.enter_context(joined(self._cluster.address))
            self._workers = stack.enter_context(Workers(self._cluster, self._talks, _end))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def stream(self, runs: Sequence[Run], _: Path, title: str) -> None:
        """Stream the runs whose log is missing or made from something else.

        Raises:
            EngineError: one failed; logs that are complete stay.
        """
        missing = [run for run in runs if not run.streamed]
        if not missing:
            return
        for run in missing:
            prepare(run, goes_on=True)
        first = runs[0]
        setup = Setup(
            first.config.models,
            names_of(first),
            tuple(shared_readouts(runs)),
            self._start_engines,
        )
        if not stream_on(self._workers, missing, function=partial(stream_remembered, setup)):
            raise EngineError(f"{title}: a run failed")
        for run in missing:
            run.files.records.unlink(missing_ok=True)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have a worker do something that needs engines."""
        job = Job(function.__name__, function, (self._start_engines, *arguments))
        ((_, found),) = self._workers.results([job])
        return found


def stream_remembered(setup: Setup, errand: Errand, talk: Talk, recording: bytes) -> Part:
    """Stream one talk in this process on engines that remember.

    Raises:
        EngineError: the agent reported an error that the harness swallowed.
    """
    heads = sorted({head for readout in setup.readouts for head in readout.heads})
    engines = setup.start_engines(locate(setup.models), heads)
    memo = _memo()
    AlignAttAgent.lend(cached(engines, memo, setup.names, setup.readouts), lambda: memo.spent)
    try:
        return stream_talk(errand, talk, recording, traced=True)
    finally:
        AlignAttAgent.lend(None)


_memos: list[tuple[ResultCache, str]] = []


def _memo() -> ResultCache:
    """Return what this worker remembers, on its own disk until it ends."""
    if not _memos:
        folder = tempfile.mkdtemp(prefix="alignatt-memo-")
        _memos.append((ResultCache(Path(folder) / "memo.sqlite"), folder))
    return _memos[0][0]


def _end() -> None:
    """Forget everything and end the engines; a worker that is killed runs no exit handlers."""
    while _memos:
        memo, folder = _memos.pop()
        memo.close()
        shutil.rmtree(folder, ignore_errors=True)
    shutdown()
