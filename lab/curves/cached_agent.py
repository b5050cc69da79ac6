"""The agent on engines behind a cache, whose logs hold the seconds that results took once."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.loading import Engines
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.machine import versions
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine.memory_plan import resolve
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.talk_jobs import TalkResult, stream_talk
from alignatt_agent.types.engines import Readout
from lab.curves.engine_cache import cached
from lab.curves.timed_cache import TimedCache

StartEngines = Callable[[ModelsConfig, Sequence[tuple[int, int]]], Engines]


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """The engines that all runs of a sweep share, in whichever process they are loaded."""

    start: StartEngines  # importable
    config: AgentConfig  # its models are planned where they are loaded
    readouts: tuple[Readout, ...]  # that serve every request for some of their heads
    cache: Path | None  # of the results; ``None`` for one that ends with the process


class CachedAgent(AlignAttAgent):
    """Streams on the engines that ``open`` put behind a cache, whatever a configuration names."""

    cache: ClassVar[TimedCache | None] = None
    _cached: ClassVar[Engines | None] = None
    _folder: ClassVar[tempfile.TemporaryDirectory[str] | None] = None

    @classmethod
    def open(cls, setup: EngineSetup) -> Engines:
        """Load the engines of a sweep and put the process's cache in front of them."""
        if cls.cache is None:
            path = setup.cache
            if path is None:
                cls._folder = tempfile.TemporaryDirectory(prefix="alignatt-cache-")
                path = Path(cls._folder.name) / "cache.sqlite"
            cls.cache = TimedCache(path)
        heads = sorted({head for readout in setup.readouts for head in readout.heads})
        resolved, known = resolve(setup.config), versions()
        models = resolved.checkpoints
        names = {
            role: f"{name}:{getattr(models, role).dtype}:{known['vllm']}:{known['torch']}"
            for role, name in resolved.identities().items()
        }
        engines = setup.start(models, heads)
        cls._cached = cached(engines, cls.cache, names, setup.readouts)
        return cls._cached

    @classmethod
    def engines(cls, resolved: Resolved, load: bool = False) -> Engines | None:
        """Return the engines behind the cache."""
        return cls._cached

    @classmethod
    def shutdown(cls) -> None:
        """Close the cache and end the engines; a worker that is killed runs no exit handlers."""
        if cls.cache is not None:
            cls.cache.close()
        if cls._folder is not None:
            cls._folder.cleanup()
        cls.cache = cls._cached = cls._folder = None
        super().shutdown()


def stream_cached(setup: EngineSetup, run: EvalRun, recording: bytes) -> TalkResult:
    """Stream a run of one talk in this process, see ``stream_talk``."""
    CachedAgent.open(setup)
    assert CachedAgent.cache is not None
    with _engine_seconds(CachedAgent.cache):
        result = stream_talk(run, recording)
    result.logs.pop("records", None)  # drafts of hours of speech would fill disks
    return result


@contextmanager
def _engine_seconds(cache: TimedCache) -> Iterator[None]:
    """Log as computation time what results took when they were computed; Python's is left out."""
    before = cache.spent

    def rewrite(record: logging.LogRecord) -> bool:
        nonlocal before
        line = json.loads(record.getMessage())
        if "computation_time" in line:
            line["computation_time"] = cache.spent - before
            before = cache.spent
            record.msg = json.dumps(line)
        return True

    METRICS_LOGGER.addFilter(rewrite)
    try:
        yield
    finally:
        METRICS_LOGGER.removeFilter(rewrite)
