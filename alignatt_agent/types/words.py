"""Results of speech recognition: words with timestamps and stability."""

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
    """The open utterance, as input to translation.

    Attributes:
        words: committed words of the open sentence, then the live tail.
        accessible: number of leading words that the policy may use.
    """

    words: tuple[Word, ...]
    accessible: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript (``None`` if unfinished) and its costs (see ``engines.Answer``)."""

    text: str | None
    steps: int = 0
    requests: int = 1


@dataclass(frozen=True, slots=True)
class SpeechUpdate:
    """Result of speech recognition for one chunk.

    Attributes:
        sentences: sentences closed by this chunk, oldest first; each is complete, including words
            that were in ``live`` in earlier updates.
        live: the open utterance.
        settled: number of leading words of ``live`` that are committed.
        stable: number of leading words of ``live`` that are committed or occur in two successive
            hypotheses.
        transcripts: results of the recognizer, which comparisons of updates ignore.
    """

    sentences: tuple[tuple[Word, ...], ...]
    live: SourceView
    settled: int = 0
    stable: int = 0
    # Costs depend on which tokens were expected, so runs are compared without them.
    transcripts: tuple[Transcript, ...] = field(default=(), compare=False)
