"""Run jobs on workers that keep their engines between jobs; repeat the jobs of lost workers."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from alignatt_agent.cluster.connection import ClusterOptions, check_versions
from alignatt_agent.cluster.jobs import Job, JobFailedError
from alignatt_agent.config.quiet import quieten
from alignatt_agent.machine.packages import versions
from alignatt_agent.types import EngineError

LOSSES = 3
"""Number of lost workers after which a job fails, because the job may have caused the losses."""

STOP_S = 20.0
"""Seconds for workers to shut down their engines."""

PATIENCE_S = 30.0
"""Seconds between messages while no worker is available."""


class Worker:
    """A process on a node; it runs one job at a time."""

    def __init__(self) -> None:
        quieten()

    def ready(self, here: Mapping[str, str]) -> None:
        """Check the versions of the node."""
        check_versions(here, versions(), ray.util.get_node_ip_address())

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a job."""
        return function(*arguments)

    def end(self, last: Callable[[], None]) -> None:
        """Run the last job of this worker."""
        last()
        tidy()


def tidy() -> None:
    """Remove semaphores of engines that were killed.

    Python's resource tracker does this when it exits, but Ray kills the tracker first. Without this
    function, 6 of 9 engines left semaphores in ``/dev/shm``.
    """
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


class Workers:
    """Context manager for the workers of one command.

    If the process or node of a worker is lost, Ray restarts the worker on any node with free
    resources, and the first idle worker repeats the job. There are at most ``jobs`` workers. At the
    end, each worker calls ``last``, an importable function.
    """

    def __init__(self, options: ClusterOptions, jobs: int, last: Callable[[], None]) -> None:
        share = options.share()
        count = max(1, min(jobs, options.room(share)))
        remote = ray.remote(Worker).options(max_restarts=-1, max_task_retries=0, **share)
        self._last = last
        self._workers = [remote.remote() for _ in range(count)]
        self._places: dict[Any, str] = {}
        self._here = versions()

    def __enter__(self) -> Workers:
        return self

    def __len__(self) -> int:
        """Return the number of concurrent jobs."""
        return len(self._workers)

    def __exit__(self, *_: object) -> None:
        """Stop the engines, then the workers."""
        ends = [worker.end.remote(self._last) for worker in self._workers]
        ray.wait(ends, num_returns=len(ends), timeout=STOP_S)
        for worker in self._workers:
            ray.kill(worker)

    def share(self, value: Any) -> Any:
        """Share a value with all workers; return a reference to it for the arguments of jobs."""
        return ray.put(value)

    def results(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
        """Run jobs and yield each job with its result; raise ``JobFailedError`` if a job fails."""
        waiting = list(jobs)
        losses: Counter[str] = Counter()
        idle: list[Any] = []
        # Calls without a job check the versions of a worker that has just started.
        running: dict[Any, tuple[Any, Job | None]] = {}
        for worker in self._workers:
            running[worker.ready.remote(self._here)] = (worker, None)
        while waiting or _has_job(running):
            finished, _ = ray.wait(list(running), num_returns=1, timeout=PATIENCE_S)
            if not finished and not _has_job(running):
                print(f"no worker is available for {len(waiting)} jobs", file=sys.stderr)
            for reference in finished:
                worker, job = running.pop(reference)
                try:
                    result = ray.get(reference)
                except RayTaskError as error:
                    cause = error.cause or error
                    if job is None:
                        raise cause from None
                    raise JobFailedError(job, cause, str(error)) from None
                except RayError as error:
                    if job is not None:
                        losses[job.name] += 1
                        if losses[job.name] >= LOSSES:
                            lost = EngineError(f"{LOSSES} workers were lost during this job")
                            raise JobFailedError(job, lost, str(error)) from None
                        print(f"{job.name}: worker lost; the job is restarted", file=sys.stderr)
                        waiting.insert(0, job)
                    # The restarted worker has no state of earlier jobs.
                    self._places.pop(worker, None)
                    time.sleep(0.2)  # a restarting worker rejects jobs immediately
                    running[worker.ready.remote(self._here)] = (worker, None)
                    continue
                idle.append(worker)
                if job is not None:
                    yield job, result
            while waiting and idle:
                worker = idle.pop()
                job = self._next(worker, waiting)
                running[worker.run.remote(job.function, *job.arguments)] = (worker, job)

    def _next(self, worker: Any, waiting: list[Job]) -> Job:
        """Choose a job with the worker's place or, failing that, with a place without a worker."""
        own_place = self._places.get(worker)
        taken_places = set(self._places.values())

        def rank(job: Job) -> tuple[bool, bool]:
            return job.place != own_place, job.place in taken_places

        job = min(waiting, key=rank)
        waiting.remove(job)
        self._places[worker] = job.place
        return job


def _has_job(running: Mapping[Any, tuple[Any, Job | None]]) -> bool:
    """Return whether any of the running calls is a job, not a check of versions."""
    return any(job is not None for _, job in running.values())
