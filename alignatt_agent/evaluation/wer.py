"""Count word errors in whole transcripts and in the newest words of the live tail.

In languages without spaces between words, characters are counted instead of words.
The last words of each chunk's hypothesis may change later. Each of these words is compared with the
reference near it. Errors are grouped by the distance from the word to the end of the audio.
"""

import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.devset import DevSet, DevSetError
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.evaluation.trace import TalkStep

BEFORE_S, AFTER_S = 1.0, 0.5
"""Margins of the reference around an utterance, in seconds, that allow for timestamp errors."""

BIN_S, BINS = 0.125, 16
"""Width in seconds and number of bins; words that ended before the oldest bin are ignored."""

PLATEAU_S = 1.0
"""Age of a word in seconds from which its error rate is assumed to be stable."""

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]

_BAND = (5, 95)


def plain_words(text: str, spaced: bool = True) -> list[str]:
    """Return the words or characters of ``text``, case-folded and without punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")  # noqa: RUF001
    folded = folded.replace("\u0e4d\u0e32", "\u0e33")  # NFKC splits a Thai vowel into two
    kinds = ((char, unicodedata.category(char)) for char in folded)
    # Marks are vowels in Hindi, Thai and Arabic.
    parts = (c if kind[0] in "LMN" or c == "'" else " " for c, kind in kinds if kind != "Cf")
    words = [bare for word in "".join(parts).split() if (bare := word.strip("'"))]
    return words if spaced else list("".join(words))


def reference_transcripts(devset: DevSet) -> dict[str, list[tuple[float, float, str]]]:
    """Return the start, end and reference text of each talk's segments."""
    if devset.transcript is None:
        raise DevSetError(f"{devset.segmentation.parent / 'ref'} contains no speech transcript")
    lines = map(str.strip, read_lines(devset.transcript))
    rows = zip(devset.segments, lines, strict=True)
    return {
        talk: [(span.offset_s, span.end_s, line) for span, line in group]
        for talk, group in groupby(rows, key=lambda row: row[0].talk)
    }


def streamed_transcripts(records: Iterable[TalkStep]) -> dict[str, str]:
    """Return the committed transcript of each talk."""
    transcripts: dict[str, list[str]] = {}
    for record in records:
        words = transcripts.setdefault(record.talk, [])
        words += [word.text for sentence in record.heard.sentences for word in sentence]
    return {talk: " ".join(words) for talk, words in transcripts.items()}


def word_error_rate(devset: DevSet, transcripts: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return word error rates in percent, ignoring case and punctuation.

    The keys are ``wer`` over all talks, ``wer_interval`` (95 % bootstrap interval over segments),
    ``wer_TALK`` for each talk, ``wer_exact`` (with case and punctuation) and ``cer`` (characters).
    """
    import jiwer

    spaced = language(source).spaced
    space = " " if spaced else ""
    references = {
        talk: [text for _, _, text in segments]
        for talk, segments in reference_transcripts(devset).items()
        if any(plain_words(text, spaced) for _, _, text in segments)
    }
    if not references:
        raise DevSetError(f"{devset.transcript} contains no words")
    counts = {
        talk: segment_errors(segments, transcripts.get(talk, ""), spaced)
        for talk, segments in references.items()
    }
    errors, words = (np.concatenate(column) for column in zip(*counts.values(), strict=True))
    found = micro(errors, words)
    whole = [" ".join(segments) for segments in references.values()]
    heard = [transcripts.get(talk, "") for talk in references]
    exact, exactly = ([space.join(text.split()) for text in texts] for texts in (whole, heard))
    said, plainly = (
        [space.join(plain_words(text, spaced)) for text in texts] for texts in (whole, heard)
    )
    return {
        "wer": _percent(found.value),
        "wer_interval": [_percent(found.low), _percent(found.high)],
        "wer_exact": _percent((jiwer.wer if spaced else jiwer.cer)(exact, exactly)),
        "cer": _percent(jiwer.cer(said, plainly)),
        **{f"wer_{talk}": _percent(e.sum() / w.sum()) for talk, (e, w) in counts.items()},
    }


def format_wer(report: Mapping[str, Any]) -> str | None:
    """Format the word error rate with its interval, e.g. ``4.24 [2.05, 7.37]``."""
    if "wer" not in report:
        return None
    low, high = report["wer_interval"]
    return f"{report['wer']:.2f} [{low:.2f}, {high:.2f}]"


def segment_errors(
    segments: Sequence[str], transcript: str, spaced: bool = True
) -> tuple[Counts, Counts]:
    """Align a talk's transcript; return the numbers of errors and words of each segment."""
    import jiwer

    plain = [plain_words(segment, spaced) for segment in segments]
    words = np.array([len(segment) for segment in plain])
    owner = np.repeat(np.arange(len(words)), words)
    reference = " ".join(word for segment in plain for word in segment)
    found = " ".join(plain_words(transcript, spaced))
    errors = np.zeros_like(words)
    for item in jiwer.process_words(reference, found).alignments[0]:
        if item.type == "insert":
            place = owner[min(item.ref_start_idx, len(owner) - 1)]
            errors[place] += item.hyp_end_idx - item.hyp_start_idx
        elif item.type != "equal":
            np.add.at(errors, owner[item.ref_start_idx : item.ref_end_idx], 1)
    return errors, words


@dataclass(frozen=True, slots=True)
class TailErrors:
    """Counts of wrong and of all words, ``[talks, bins]``, by distance to the end of the audio.

    ``edges_s`` contains the bin edges, one more than there are bins.
    """

    edges_s: tuple[float, ...]
    errors: Counts
    words: Counts

    def rates(self) -> Rates:
        """Return the error rate of each bin; the rate of a bin without words is NaN."""
        return _rate(self.errors.sum(0), self.words.sum(0))

    def bands(self) -> tuple[Rates, Rates]:
        """Return the limits of the 90 % band of each bin; talks are resampled."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # bins without words stay NaN
            low, high = np.nanpercentile(_drawn(self.errors, self.words), _BAND, axis=0)
        return low, high

    def hold_back_s(self) -> float | None:
        """Return the distance from which the error rate is stable, or ``None`` for too few words.

        This distance is the start of the first bin whose error rate is not above the band of all
        words that are at least ``PLATEAU_S`` seconds old.
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
    spaced: bool = True,
) -> TailErrors:
    """Compare the shown words of each chunk with the reference.

    ``references`` contains the start, end and text of each talk's segments.
    """
    talks = list(references)
    errors = np.zeros((len(talks), BINS), np.int64)
    words = np.zeros((len(talks), BINS), np.int64)
    plain = {
        talk: [(start, end, plain_words(text, spaced)) for start, end, text in segments]
        for talk, segments in references.items()
    }
    for record in records:
        if not record.heard.live.words:
            continue
        if record.talk not in references:
            raise DevSetError(f"the talk {record.talk} of the run is not in the dev set")
        row = talks.index(record.talk)
        shown = [(plain_words(word.text, spaced), word.end) for word in record.heard.live.words]
        begin, end = record.heard.live.words[0].start - BEFORE_S, record.audio_s + AFTER_S
        window = [
            word for start, stop, text in plain[record.talk] if start < end and stop > begin
            for word in text
        ]  # fmt: skip
        pieces = [(piece, stop) for bare, stop in shown for piece in bare]
        right = matches([piece for piece, _ in pieces], window)
        for (_, stop), correct in zip(pieces, right, strict=True):
            place = int((record.audio_s - stop) / BIN_S + 1e-9)
            if 0 <= place < BINS:
                words[row, place] += 1
                errors[row, place] += not correct
    return TailErrors(tuple(k * BIN_S for k in range(BINS + 1)), errors, words)


def matches(hypothesis: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Return which words of ``hypothesis`` are correct.

    The hypothesis is aligned with the part of ``reference`` that needs the fewest edits.
    """
    n, m = len(hypothesis), len(reference)
    edit = 2 * n + 1  # among alignments with the fewest edits, prefer the most correct words
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
    """Return the rates for 1000 resamples of the talks, ``[resamples, ...]``."""
    picks = np.random.default_rng(1).integers(0, len(words), (1000, len(words)))
    return _rate(errors[picks].sum(1), words[picks].sum(1))


def _rate(errors: Counts, words: Counts) -> Rates:
    with np.errstate(all="ignore"):
        return np.where(words > 0, errors / np.maximum(words, 1), np.nan)


def _percent(rate: float) -> float:
    return round(100 * float(rate), 3)
