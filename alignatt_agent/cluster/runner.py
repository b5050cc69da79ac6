"""Who does the jobs of a command: this process, or the workers of a cluster."""

import contextlib
from collections.abc import Callable, Iterator

from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.jobs import JobRunner


@contextlib.contextmanager
def job_runner(
    cluster: ClusterOptions | None, jobs: int, last: Callable[[], None]
) -> Iterator[JobRunner]:
    """Start a runner of jobs, and end it.

    Args:
        cluster: the cluster to join; ``None`` for this process.
        jobs: number of jobs; there are no more workers than that.
        last: every worker does it at the end; importable.
    """
    if cluster is None:
        try:
            yield JobRunner()
        finally:
            last()
    else:
        with joined(cluster.address):
            from alignatt_agent.cluster.workers import Workers  # imports Ray, an extra

            with Workers(cluster, jobs, last) as workers:
                yield workers
