"""Describe a command's jobs for the workers of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alignatt_agent.types import AlignAttError


@dataclass(frozen=True, slots=True)
class Job:
    """A function call for a worker."""

    name: str  # title in messages
    function: Callable[..., Any]  # importable; later jobs can use state in its module
    arguments: tuple[Any, ...]  # results of ``Workers.share`` are replaced by their values
    place: str = ""  # jobs with equal places should run on the same worker


class JobFailedError(AlignAttError):
    """A job raised ``cause`` or lost too many workers; ``details`` is the traceback."""

    exit_status = 1

    def __init__(self, job: Job, cause: BaseException, details: str) -> None:
        super().__init__(f"{job.name}: {cause}")
        self.job, self.cause, self.details = job, cause, details
