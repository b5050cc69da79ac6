"""Describe the jobs of a command for the workers of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alignatt_agent.types import AlignAttError


@dataclass(frozen=True, slots=True)
class Job:
    """A call for a worker.

    Attributes:
        name: name of the job in messages.
        function: an importable function; later jobs of the worker can use state in its module.
        arguments: arguments of the function; results of ``Workers.share`` stand for their values.
        place: jobs with the same place should run on the same worker.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    place: str = ""


class JobFailedError(AlignAttError):
    """A job raised ``cause`` or lost too many workers; ``details`` is the traceback."""

    exit_status = 1

    def __init__(self, job: Job, cause: BaseException, details: str) -> None:
        super().__init__(f"{job.name}: {cause}")
        self.job, self.cause, self.details = job, cause, details
