"""The state of a live tail. A step computes a new state, which replaces the old one.

All times are in seconds from the start of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript, Word


def _no_audio() -> FloatArray:
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class TailState:
    """Audio and words of one stream that later chunks still need.

    Attributes:
        inbox: received pieces of audio that are not yet part of the tail, oldest first.
        audio: the audio of the tail, ``[samples]``.
        received: number of samples since the start of the stream, without the inbox.
        heard: number of samples before the end of the latest hypothesis.
        settled_s: end of the latest committed word.
        open_words: committed words whose sentence is still open.
        hypothesis: the words of the tail.
        missed: whether the latest transcript of audible audio was empty.
        dropping: whether the latest chunk made the tail too long.
        refused: number of consecutive transcripts that did not end.
        transcripts: results of the recognizer since the last update.
        closed: sentences that were closed since the last update.
    """

    inbox: tuple[FloatArray, ...] = ()
    audio: FloatArray = field(default_factory=_no_audio)
    received: int = 0
    heard: int = 0
    settled_s: float = 0.0
    open_words: tuple[Word, ...] = ()
    hypothesis: Hypothesis = field(default_factory=Hypothesis)
    missed: bool = False
    dropping: bool = False
    refused: int = 0
    transcripts: tuple[Transcript, ...] = ()
    closed: tuple[tuple[Word, ...], ...] = ()

    @property
    def now(self) -> float:
        """Return the end of the tail's audio."""
        return self.received / SAMPLE_RATE

    @property
    def heard_s(self) -> float:
        """Return the end of the latest hypothesis's audio."""
        return self.heard / SAMPLE_RATE

    @property
    def start(self) -> float:
        """Return the time of the first sample of the tail."""
        return self._first_sample / SAMPLE_RATE

    @property
    def tail_s(self) -> float:
        """Return the length of the tail's audio, in seconds."""
        return self.audio.size / SAMPLE_RATE

    @property
    def _first_sample(self) -> int:
        return self.received - self.audio.size

    def with_next_piece(self) -> TailState:
        """Return the state after the oldest piece of the inbox became part of the tail."""
        piece = self.inbox[0]
        return replace(
            self,
            inbox=self.inbox[1:],
            audio=np.concatenate([self.audio, piece]),
            received=self.received + piece.size,
        )

    def trimmed(self, cut: float) -> TailState:
        """Return the state without the audio before the time ``cut``."""
        cut_sample = round(cut * SAMPLE_RATE)
        drop = cut_sample - self._first_sample
        if drop <= 0:
            return self
        # A copy, because a view would keep the dropped audio in memory.
        rest = self.audio[drop:].copy()
        return replace(self, audio=rest)
