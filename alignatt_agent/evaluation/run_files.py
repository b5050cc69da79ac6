"""Files of a run, below the output folder."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class InFolder:
    """A file of this name in the folder of its owner, e.g. ``RunFiles(folder).metrics``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, owner: RunFiles, kind: type[RunFiles]) -> Path:
        return owner.folder / self.name


@dataclass(frozen=True)
class RunFiles:
    """Files of one target language below the output folder.

    ``config`` is also OmniSTEval's configuration; ``records`` is written by our own agents only,
    ``clock`` by paced runs; ``finished`` is the signature, written after the last talk; ``table``,
    ``report`` and ``instances`` are OmniSTEval's; ``parts`` are talks that were streamed as jobs,
    until all are there.
    """

    folder: Path

    config = InFolder("agent.yaml")
    wavs = InFolder("wavs.txt")
    metrics = InFolder("metrics.jsonl")
    records = InFolder("steps.jsonl")
    clock = InFolder("paced.jsonl")
    finished = InFolder("run.json")
    log = InFolder("run.log")
    scores = InFolder("scores.json")
    table = InFolder("scores.tsv")
    report = InFolder("evaluation_report.txt")
    instances = InFolder("instances.resegmented.jsonl")
    parts = InFolder("talks.jsonl")

    def clean(self, keep: Collection[Path] = ()) -> None:
        """Make the folder and remove the files of an earlier run, except ``keep``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in vars(RunFiles).values():
            if isinstance(file, InFolder) and self.folder / file.name not in keep:
                (self.folder / file.name).unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write figures that are kept; a ``ValueError`` reports NaN."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")
