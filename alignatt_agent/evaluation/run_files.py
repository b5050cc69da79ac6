"""Paths of a run's files below the output folder."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from alignatt_agent.types import AlignAttError


class OutputError(AlignAttError, ValueError):
    """An output folder contains other files that would be lost."""


class RunFiles:
    """Files of one target language below the output folder.

    ``config`` is also OmniSTEval's configuration. ``records`` is the trace of the agent. Paced
    runs write ``clock``. ``finished`` is the signature, written after the last talk. OmniSTEval
    writes ``table``, ``report`` and ``instances``. Until all talks are done, ``parts`` contains
    the talks that were streamed as separate jobs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "agent.yaml"
        self.wavs = folder / "wavs.txt"
        self.metrics = folder / "metrics.jsonl"
        self.records = folder / "steps.jsonl"
        self.clock = folder / "paced.jsonl"
        self.finished = folder / "run.json"
        self.log = folder / "run.log"
        self.scores = folder / "scores.json"
        self.table = folder / "scores.tsv"
        self.report = folder / "evaluation_report.txt"
        self.instances = folder / "instances.resegmented.jsonl"
        self.parts = folder / "talks.jsonl"

    def refuse_run(self, result_name: str) -> None:
        """Refuse to clean the folder of a streamed or scored run, or a folder of other files.

        ``result_name`` is the file that the calling command writes. A folder with this file is an
        earlier output of the command, unless it also contains other files of a run.

        Raises:
            OutputError: the folder contains files that ``clean`` would remove.
        """
        files = [self.finished, self.records, self.clock, self.scores, self.parts]
        # `alignatt asr` also writes a metrics.jsonl and an agent.yaml, which it may replace. In
        # another folder, agent.yaml may be a configuration that a person wrote.
        if not (self.folder / result_name).is_file():
            files += [self.metrics, self.config, self.wavs, self.log]
        for path in files:
            if path.is_file():
                raise OutputError(
                    f"{self.folder} contains {path.name} of a run, which would be deleted: choose "
                    f"another --output"
                )

    def clean(self, keep: Collection[Path] = ()) -> None:
        """Create the folder and remove the files of an earlier run, except ``keep``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # All attributes are paths, and only the folder is not a file.
        for path in {*vars(self).values()} - {self.folder, *keep}:
            path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as JSON; NaN raises ``ValueError``."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; return an empty one if the file is missing or incomplete."""
    try:
        # A call that was interrupted while writing leaves an incomplete file.
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    if not isinstance(content, dict):
        return {}
    return content
