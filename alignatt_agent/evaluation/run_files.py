"""Files of a run, below the output folder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.resolve import AgentChoice

_WRITTEN = (
    "agent.yaml",
    "wavs.txt",
    "metrics.jsonl",
    "steps.jsonl",
    "paced.jsonl",
    "run.json",
    "run.log",
    "scores.json",
    "scores.tsv",
    "evaluation_report.txt",
    "instances.resegmented.jsonl",
)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Files of one target language below the output folder."""

    folder: Path

    @property
    def config(self) -> Path:
        """Resolved YAML; also OmniSTEval's configuration."""
        return self.folder / "agent.yaml"

    @property
    def wavs(self) -> Path:
        """List of recordings."""
        return self.folder / "wavs.txt"

    @property
    def metrics(self) -> Path:
        """Simulstream's log."""
        return self.folder / "metrics.jsonl"

    @property
    def records(self) -> Path:
        """What happened inside each chunk; only of our own agents."""
        return self.folder / "steps.jsonl"

    @property
    def clock(self) -> Path:
        """When each chunk was done, by the clock; only of paced runs."""
        return self.folder / "paced.jsonl"

    @property
    def finished(self) -> Path:
        """Signature of the run; written when its last talk was streamed."""
        return self.folder / "run.json"

    @property
    def scores(self) -> Path:
        """Scores and signature."""
        return self.folder / "scores.json"

    @property
    def instances(self) -> Path:
        """Reference segments with the output aligned to them, by OmniSTEval."""
        return self.folder / "instances.resegmented.jsonl"

    @property
    def log(self) -> Path:
        """Messages of the run."""
        return self.folder / "run.log"

    def clean(self) -> None:
        """Remove what an earlier run wrote."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in _WRITTEN:
            (self.folder / name).unlink(missing_ok=True)

    def prepare(self, choice: AgentChoice, devset: DevSet, target: str) -> None:
        """Remove what an earlier run wrote and write the inputs of this one."""
        self.clean()
        self.config.write_text(choice.resolved_yaml(target), encoding="utf-8")
        self.wavs.write_text("".join(f"{talk.wav}\n" for talk in devset.talks), encoding="utf-8")

    def inference_command(self, target: str, source: str) -> str:
        """The equivalent command of the official harness."""
        return shlex.join(
            [
                "simulstream_inference",
                *("--speech-processor-config", str(self.config)),
                *("--wav-list-file", str(self.wavs)),
                *("--tgt-lang", target, "--src-lang", source),
                *("--metrics-log-file", str(self.metrics)),
            ]
        )
