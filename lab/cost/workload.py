"""What a chunk asks of each model, counted in a recorded run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from alignatt_agent.types import Word
from alignatt_agent.types.stopwatch import STAGES

STEPS = "steps.jsonl"


@dataclass(frozen=True, slots=True)
class Workload:
    """Averages of a run; those of a chunk count chunks of the run's own length."""

    chunk_s: float
    heard: float  # share of chunks whose live tail was transcribed and timed
    tail_s: float  # audio of such a tail
    tail_words: float  # of its transcript
    open_words: float  # of the open utterance
    requests: float  # how often the recognizer was asked for a transcript
    asr_steps: float  # tokens that it sampled for it
    drafted: float  # share of chunks that asked the translation model
    draft_steps: float  # tokens that it sampled in such a chunk
    accepted: float  # tokens of them that were emitted
    seconds: dict[str, float]  # measured, of every stage of a chunk

    @property
    def rest(self) -> float:
        """Seconds of a chunk outside the models."""
        return self.seconds["emission"]

    def at(self, chunk_s: float) -> Workload:
        """Return the workload of another length of chunks.

        Tails stay as long as they are, since their sentences do. The longer a chunk, the more of
        its draft is emitted; what is sampled in vain stays the same.
        """
        more = self.accepted * (chunk_s / self.chunk_s - 1)
        drafted = self.draft_steps + more
        return replace(self, chunk_s=chunk_s, draft_steps=drafted, accepted=self.accepted + more)


def read_workload(folder: Path) -> Workload:
    """Count what one target of a run asked of the models."""
    path = folder / STEPS
    if not path.is_file():
        raise ConfigError(
            f"{path} does not exist; `make dev-low` records outputs/dev-low/de/{STEPS}"
        )
    return count(read_steps(path), str(path))


def count(steps: Iterable[TalkStep], origin: str = "the run") -> Workload:
    """Count what a trace asked of the models."""
    chunks, heard, drafted, sampled, accepted, audio = 0, 0, 0, 0, 0, 0.0
    tail_s = tail_words = open_words = 0.0
    transcripts = requests = asr_steps = 0
    seconds = dict.fromkeys(STAGES, 0.0)
    settled: dict[str, float] = {}
    ends: dict[str, float] = {}
    for step in steps:
        begin = settled.get(step.talk, 0.0)
        words = [word for sentence in step.heard.sentences for word in sentence]
        chunks += 1
        audio += step.audio_s - ends.get(step.talk, 0.0)
        ends[step.talk] = step.audio_s
        for stage, value in step.seconds.items():
            seconds[stage] += value
        if step.seconds["aligner"] > 0:
            heard += 1
            tail_s += step.audio_s - begin
            tail_words += _after(begin, [*words, *step.heard.live.words])
            open_words += len(step.heard.live.words)
        transcripts += step.heard.transcripts.count
        requests += step.heard.transcripts.requests
        asr_steps += step.heard.transcripts.steps
        if step.passes:
            drafted += 1
            sampled += step.passes
            accepted += step.accepted
        over = [*words, *step.heard.live.words[: step.heard.settled]]
        settled[step.talk] = max([begin, *(word.end for word in over)])
    if not heard or not drafted or not sum(seconds.values()):
        raise ConfigError(f"{origin} has no chunk that was heard and translated, with its times")
    return Workload(
        chunk_s=audio / chunks,
        heard=heard / chunks,
        tail_s=tail_s / heard,
        tail_words=tail_words / heard,
        open_words=open_words / heard,
        requests=requests / transcripts if transcripts else 1.0,
        asr_steps=asr_steps / transcripts if transcripts else 0.0,
        drafted=drafted / chunks,
        draft_steps=sampled / drafted,
        accepted=accepted / drafted,
        seconds={stage: value / chunks for stage, value in seconds.items()},
    )


def _after(begin: float, words: Iterable[Word]) -> int:
    return sum(word.end > begin for word in words)
