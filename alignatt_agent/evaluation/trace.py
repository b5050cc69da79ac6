"""Read and write ``steps.jsonl``, the trace of a run: one ``types.Step`` per line and chunk."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TextIO

from pydantic import TypeAdapter

from alignatt_agent.types import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkStep(Step):
    """A recorded chunk; ``talk`` is the file stem of the recording."""

    talk: str


_LINES = TypeAdapter(TalkStep)


class Recorder:
    """Observes an agent (``Runtime.observer``) and writes one line per chunk of ``talk``."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.talk = ""

    def __call__(self, step: Step) -> None:
        """Write one chunk."""
        # asdict would also convert the objects inside the step.
        values = {field.name: getattr(step, field.name) for field in fields(step)}
        line = _LINES.dump_json(TalkStep(**values, talk=self.talk))
        self._file.write(line.decode() + "\n")


def read_steps(path: Path) -> Iterator[TalkStep]:
    """Read ``steps.jsonl``, one chunk at a time."""
    with path.open(encoding="utf-8") as stream:
        yield from map(_LINES.validate_json, stream)
