"""Compare successive hypotheses of the live tail: words, timestamps, and times of last changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignatt_agent.text.running_text import common_prefix, without_marks
from alignatt_agent.types import Word

ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The words of the live tail; all times are in seconds from the start of the stream.

    Attributes:
        words: the words, with times inside the audio.
        ends: measured ends of the words, in order; a word that continues ends after ``at``.
        since: for each word, the time of the first hypothesis with this word and those before it.
        at: end of the audio.
        before: end of the audio of the previous hypothesis.
        previous: words of the previous hypothesis.
    """

    words: tuple[Word, ...] = ()
    ends: tuple[float, ...] = ()
    since: tuple[float, ...] = ()
    at: float = 0.0
    before: float = 0.0
    previous: tuple[Word, ...] = ()

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
        if stable_only:
            return min(ready, self.stable)
        return ready

    def probably_accessible(self, texts: Sequence[str], stable_only: bool) -> int:
        """Return the probable number of accessible words in the next hypothesis, before alignment.

        The last word probably continues, unless only its punctuation changed.
        """
        earlier_texts = self.texts
        ready = len(texts) - 1
        if earlier_texts and without_marks(earlier_texts[-1]) == without_marks(texts[-1]):
            ready = len(texts)
        if stable_only:
            # Only these words will also be in two hypotheses.
            return min(ready, common_prefix(earlier_texts, texts))
        return ready

    def revised(
        self, words: Sequence[Word], ends: Sequence[float], at: float, before: float
    ) -> Hypothesis:
        """Return the next hypothesis; unchanged words keep their ``since``."""
        texts = [word.text for word in words]
        unchanged = common_prefix(self.texts, texts)
        changed = len(words) - unchanged
        return Hypothesis(
            words=tuple(words),
            ends=tuple(ends),
            since=self.since[:unchanged] + (at,) * changed,
            at=at,
            before=before,
            previous=self.words,
        )

    def border(self, count: int, exact: bool) -> tuple[float, float]:
        """Return the end of the first ``count`` words and the start of the next word.

        Times that are not ``exact`` may be inside a word, so the interval then includes both words.
        """
        last = self.words[count - 1]
        if count >= len(self.words):
            rest_start = rest_end = self.before
        else:
            rest_start = self.words[count].start
            rest_end = self.words[count].end
        if exact:
            return last.end, rest_start
        return last.start, rest_end

    def after(self, count: int) -> Hypothesis:
        """Return the hypothesis that remains after the first ``count`` words are committed."""
        return replace(
            self,
            words=self.words[count:],
            ends=self.ends[count:],
            since=self.since[count:],
        )
