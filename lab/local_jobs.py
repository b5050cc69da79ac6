"""Run the jobs of a sweep in this process or on the workers of a cluster."""

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.jobs import Job, JobFailedError


class LocalRunner:
    """Runs jobs in order in this process; ``cluster.workers.Workers`` runs them elsewhere."""

    def __len__(self) -> int:
        """Return the number of concurrent jobs."""
        return 1

    def share(self, value: Any) -> Any:
        """Return the representation of ``value`` in the arguments of several jobs."""
        return value

    def results(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
        """Run jobs; yield each finished job with its result, or raise ``JobFailedError``."""
        for job in jobs:
            try:
                result = job.function(*job.arguments)
            except Exception as error:
                raise JobFailedError(job, error, traceback.format_exc()) from error
            yield job, result


@contextlib.contextmanager
def job_runner(
    cluster: ClusterOptions | None, jobs: int, last: Callable[[], None]
) -> Iterator[Any]:
    """Start and end a runner of jobs; ``None`` means this process.

    There are at most ``jobs`` workers; every worker calls ``last`` at the end.
    """
    if cluster is None:
        try:
            yield LocalRunner()
        finally:
            last()
    else:
        with joined(cluster.address):
            from alignatt_agent.cluster.workers import Workers  # imports Ray, an extra

            with Workers(cluster, jobs, last) as workers:
                yield workers
