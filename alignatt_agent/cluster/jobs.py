"""Jobs of a command, which the workers of a cluster do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alignatt_agent.types import AlignAttError


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do.

    Attributes:
        name: for messages.
        function: importable; what it leaves in its module is there for the worker's next job.
        arguments: its arguments; what ``Workers.share`` returned is replaced by the value.
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
