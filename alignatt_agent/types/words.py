"""Results of the speech side: words with their times and their stability."""

from dataclasses import dataclass, field

SAMPLE_RATE = 16_000
"""Sampling rate of all audio inside the cascade, in Hz."""


@dataclass(frozen=True, slots=True)
class Word:
    """One transcribed word with its punctuation, e.g. ``"model,"``, and the ``gap`` before it."""

    text: str
    start: float
    end: float
    gap: str = " "


@dataclass(frozen=True, slots=True)
class SourceView:
    """The open utterance as the translation side receives it.

    Attributes:
        words: committed words of the open sentence, then the live tail.
        accessible: number of leading words that the policy may rely on.
    """

    words: tuple[Word, ...]
    accessible: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript, or ``None`` if it was not finished; costs are as in ``engines.Answer``."""

    text: str | None
    steps: int = 0
    requests: int = 1


@dataclass(frozen=True, slots=True)
class SpeechUpdate:
    """Result of one chunk on the speech side.

    Attributes:
        sentences: sentences closed by this chunk, oldest first; each is complete, including words
            that were in ``live`` in earlier updates.
        live: the open utterance.
        settled: number of leading words of ``live`` that are committed.
        stable: number of leading words of ``live`` that are settled or in two successive
            hypotheses.
        transcripts: results of the recognizer; ignored in comparisons.
    """

    sentences: tuple[tuple[Word, ...], ...]
    live: SourceView
    settled: int = 0
    stable: int = 0
    transcripts: tuple[Transcript, ...] = field(default=(), compare=False)
