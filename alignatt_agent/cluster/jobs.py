"""Jobs of a command, and how this process does them."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from alignatt_agent.types import AlignAttError


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do.

    Attributes:
        name: for messages.
        function: importable; what it leaves in its module is there for the worker's next job.
        arguments: its arguments; what ``JobRunner.share`` returned is replaced by the value.
        place: jobs of one place are best done by one worker.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    place: str = ""


class JobFailedError(AlignAttError):
    """A job raised ``cause``, or lost too many workers; ``details`` is the traceback."""

    exit_status = 1

    def __init__(self, job: Job, cause: BaseException, details: str) -> None:
        super().__init__(f"{job.name}: {cause}")
        self.job, self.cause, self.details = job, cause, details


class JobRunner:
    """Does jobs in this process, in order."""

    def __len__(self) -> int:
        """Return how many jobs run at a time."""
        return 1

    def share(self, value: Any) -> Any:
        """Return what stands for ``value`` among the arguments of several jobs."""
        return value

    def results(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
        """Do jobs; yield each with its result when it is done, or raise ``JobFailedError``."""
        for job in jobs:
            try:
                result = job.function(*job.arguments)
            except Exception as error:
                raise JobFailedError(job, error, traceback.format_exc()) from error
            yield job, result
