"""Word errors of the speech side: of whole transcripts, and of the newest words of the live tail.

Every chunk shows a hypothesis whose last words are about to change. Each shown word is compared
with the reference around it; errors are pooled by how long before the end of the audio it ended.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from alignatt_agent.evaluation.devset import DevSet, DevSetError
from alignatt_agent.evaluation.trace import TalkStep

BEFORE_S, AFTER_S = 1.0, 0.5
"""Reference around an utterance, in seconds: word times and segment borders err."""

PLATEAU_S = 1.0
"""Words that ended longer ago are as good as they get."""

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]

_BAND = (5, 95)

_NO_LETTER = re.compile(r"[^\w\s']|_")


def normalised(text: str) -> list[str]:
    """Return the words of ``text`` without punctuation and case."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")  # noqa: RUF001
    words = _NO_LETTER.sub(" ", folded).split()
    return [bare for word in words if (bare := word.strip("'"))]


def reference_transcripts(devset: DevSet) -> dict[str, list[tuple[float, float, str]]]:
    """Return the reference transcript of each talk: start, end and text of its segments.

    Raises:
        DevSetError: the dev set has no transcript.
    """
    if devset.transcript is None:
        raise DevSetError(f"{devset.segmentation.parent / 'ref'} has no transcript of the speech")
    with devset.transcript.open(encoding="utf-8") as stream:
        rows = list(zip(devset.segments, (line.strip() for line in stream), strict=True))
    return {
        talk: [(span.offset_s, span.end_s, line) for span, line in group]
        for talk, group in groupby(rows, key=lambda row: row[0].talk)
    }


def streamed_transcripts(records: Iterable[TalkStep]) -> dict[str, str]:
    """Return what the speech side settled on, by talk."""
    heard: dict[str, list[str]] = {}
    for record in records:
        words = heard.setdefault(record.talk, [])
        words += [word.text for sentence in record.heard.sentences for word in sentence]
    return {talk: " ".join(words) for talk, words in heard.items()}


def word_error_rate(devset: DevSet, heard: Mapping[str, str]) -> dict[str, float]:
    """Return the word error rate in percent, as ``wer``, and of each talk, as ``wer_TALK``.

    Case and punctuation do not count; ``wer_exact`` is the rate when they do.

    Raises:
        DevSetError: the dev set has no transcript.
    """
    import jiwer

    references = {
        talk: text
        for talk, segments in reference_transcripts(devset).items()
        if normalised(text := " ".join(text for _, _, text in segments))
    }
    if not references:
        raise DevSetError(f"{devset.transcript} holds no word")
    exact = [heard.get(talk, "") for talk in references]
    bare = {talk: " ".join(normalised(text)) for talk, text in references.items()}
    ours = {talk: " ".join(normalised(heard.get(talk, ""))) for talk in references}
    return {
        "wer": round(100 * jiwer.wer(list(bare.values()), list(ours.values())), 3),
        "wer_exact": round(100 * jiwer.wer(list(references.values()), exact), 3),
        **{f"wer_{talk}": round(100 * jiwer.wer(bare[talk], ours[talk]), 3) for talk in bare},
    }


@dataclass(frozen=True, slots=True)
class TailErrors:
    """Reference error of shown words by distance to the end of the audio.

    Attributes:
        edges_s: borders of the bins, one more than there are bins.
        errors: ``[talks, bins]`` wrong words.
        words: ``[talks, bins]`` shown words.
    """

    edges_s: tuple[float, ...]
    errors: Counts
    words: Counts

    def rates(self) -> Rates:
        """Return the error rate of each bin; NaN where no word was shown."""
        return _rate(self.errors.sum(0), self.words.sum(0))

    def bands(self) -> tuple[Rates, Rates]:
        """Return the lower and upper end of the 90 % band of each bin: talks are drawn again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # bins without a word stay NaN
            low, high = np.nanpercentile(_drawn(self.errors, self.words), _BAND, axis=0)
        return low, high

    def hold_back_s(self) -> float | None:
        """Return the distance from which words are as good as they get.

        The first bin whose error rate is not above the band of the plateau, that is of all words
        at least ``PLATEAU_S`` old. ``None`` when there are too few words to tell.
        """
        settled = np.array(self.edges_s[:-1]) >= PLATEAU_S - 1e-9
        wrong, total = self.errors[:, settled].sum(1), self.words[:, settled].sum(1)
        if not total.any():
            return None
        limit = np.nanpercentile(_drawn(wrong, total), _BAND[1])
        pairs = zip(self.edges_s, self.rates(), strict=False)
        return next((start for start, rate in pairs if rate <= limit), None)


def tail_errors(
    records: Iterable[TalkStep],
    references: Mapping[str, Sequence[tuple[float, float, str]]],
    bin_s: float = 0.125,
    longest_s: float = 2.0,
) -> TailErrors:
    """Compare every word that was shown with the reference.

    Args:
        records: chunks of a run.
        references: start, end and text of the reference segments of each talk.
        bin_s: width of a bin of distances.
        longest_s: words that ended longer ago are not counted.

    Raises:
        DevSetError: a recording of the run has no reference.
    """
    bins = round(longest_s / bin_s)
    talks = list(references)
    errors = np.zeros((len(talks), bins), np.int64)
    words = np.zeros((len(talks), bins), np.int64)
    plain = {
        talk: [(start, end, normalised(text)) for start, end, text in segments]
        for talk, segments in references.items()
    }
    for record in records:
        if not record.heard.live.words:
            continue
        if record.talk not in references:
            raise DevSetError(f"{record.talk} was streamed, but the dev set does not have it")
        row = talks.index(record.talk)
        shown = [(normalised(word.text), word.end) for word in record.heard.live.words]
        begin, end = record.heard.live.words[0].start - BEFORE_S, record.audio_s + AFTER_S
        window = [
            word for start, stop, text in plain[record.talk] if start < end and stop > begin
            for word in text
        ]  # fmt: skip
        pieces = [(piece, stop) for bare, stop in shown for piece in bare]
        right = matches([piece for piece, _ in pieces], window)
        for (_, stop), correct in zip(pieces, right, strict=True):
            place = int((record.audio_s - stop) / bin_s + 1e-9)
            if 0 <= place < bins:
                words[row, place] += 1
                errors[row, place] += not correct
    edges = tuple(round(k * bin_s, 6) for k in range(bins + 1))
    return TailErrors(edges, errors, words)


def matches(hypothesis: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Tell which words of ``hypothesis`` are right: the fewest edits to any part of ``reference``.

    Words of the reference before and after that part cost nothing.
    """
    n, m = len(hypothesis), len(reference)
    edit = 2 * n + 1  # among equally few edits, the most right words
    cost = [[0] * (m + 1)]

    def paired(i: int, j: int) -> int:
        return cost[i - 1][j - 1] + (-1 if hypothesis[i - 1] == reference[j - 1] else edit)

    for i in range(1, n + 1):
        row = [i * edit]
        cost.append(row)
        for j in range(1, m + 1):
            row.append(min(paired(i, j), cost[i - 1][j] + edit, row[j - 1] + edit))
    right = [False] * n
    i, j = n, min(range(m + 1), key=lambda k: cost[n][k])
    while i > 0:
        if j > 0 and cost[i][j] == paired(i, j):
            right[i - 1] = hypothesis[i - 1] == reference[j - 1]
            i, j = i - 1, j - 1
        elif cost[i][j] == cost[i - 1][j] + edit:
            i -= 1
        else:
            j -= 1
    return right


def _drawn(errors: Counts, words: Counts) -> Rates:
    """Return the rates of 1000 resamples of the talks, ``[resamples, ...]``."""
    picks = np.random.default_rng(1).integers(0, len(words), (1000, len(words)))
    return _rate(errors[picks].sum(1), words[picks].sum(1))


def _rate(errors: Counts, words: Counts) -> Rates:
    with np.errstate(all="ignore"):
        return np.where(words > 0, errors / np.maximum(words, 1), np.nan)
