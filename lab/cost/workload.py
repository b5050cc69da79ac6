"""What a chunk asks of each model, counted in the run into German of `make dev-low`.

The counting code is in the history, at commit 0dc597f.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path


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


def stored() -> Workload:
    """Return the counted workload, ``workload.json``."""
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return Workload(**json.loads(text))
