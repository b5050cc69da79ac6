"""Compare successive hypotheses of the live tail: words, timestamps, and times of last changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignatt_agent.types import Word
from alignatt_agent.types.running_text import common_prefix, without_marks

ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The words of the live tail; all times are in seconds from the start of the stream."""

    words: tuple[Word, ...] = ()  # with times inside the audio
    ends: tuple[float, ...] = ()  # as measured, in order; a word that continues ends after ``at``
    since: tuple[float, ...] = ()  # time of the first hypothesis with the word and those before it
    at: float = 0.0  # end of the audio
    before: float = 0.0  # end of the audio of the previous hypothesis
    previous: tuple[Word, ...] = ()  # words of the previous hypothesis

    @property
    def texts(self) -> list[str]:
        """Return the words without their times."""
        return [word.text for word in self.words]

    @property
    def stable(self) -> int:
        """Return the number of leading words that did not change since the previous hypothesis."""
        return sum(since < self.at for since in self.since)

    def ended(self, hold_back_s: float) -> int:
        """Return the number of words that ended at least ``hold_back_s`` before the audio's end."""
        return sum(self.at - end >= hold_back_s - ROUNDING_S for end in self.ends)

    def accessible(self, hold_back_s: float, stable_only: bool) -> int:
        """Return the number of accessible words."""
        ready = self.ended(hold_back_s)
        return min(ready, self.stable) if stable_only else ready

    def probably_accessible(self, texts: Sequence[str], stable_only: bool) -> int:
        """Return the probable number of accessible words in the next hypothesis, before alignment.

        The last word probably continues, unless only its punctuation changed.
        """
        before = self.texts
        over = bool(before) and without_marks(before[-1]) == without_marks(texts[-1])
        ready = len(texts) - (not over)
        return min(ready, common_prefix(before, texts)) if stable_only else ready

    def revised(
        self, words: Sequence[Word], ends: Sequence[float], at: float, before: float
    ) -> Hypothesis:
        """Return the next hypothesis; unchanged words keep their ``since``."""
        same = common_prefix(self.texts, [word.text for word in words])
        since = self.since[:same] + (at,) * (len(words) - same)
        return Hypothesis(tuple(words), tuple(ends), since, at, before, self.words)

    def border(self, count: int, exact: bool) -> tuple[float, float]:
        """Return the end of the first ``count`` words and the start of the next word.

        Times that are not ``exact`` may be inside a word, so the interval then includes both words.
        """
        last, rest = self.words[count - 1], self.words[count : count + 1]
        if exact:
            return last.end, rest[0].start if rest else self.before
        return last.start, rest[0].end if rest else self.before

    def after(self, count: int) -> Hypothesis:
        """Return the hypothesis that remains after the first ``count`` words are committed."""
        return replace(
            self, words=self.words[count:], ends=self.ends[count:], since=self.since[count:]
        )
