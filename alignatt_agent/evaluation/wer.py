"""Count word errors in whole transcripts and in the newest words of the live tail.

In languages without spaces between words, characters are counted instead of words.
The last words of each chunk's hypothesis may change later. Each of these words is compared with the
reference near it. Errors are grouped by the distance from the word to the end of the audio.
"""

import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.segments import DevSetError
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.evaluation.trace import TalkStep

BEFORE_S, AFTER_S = 1.0, 0.5
"""Margins of the reference around an utterance, in seconds, that allow for timestamp errors."""

BIN_S, BINS = 0.125, 16
"""Width in seconds and number of bins; words that ended before the oldest bin are ignored."""

PLATEAU_S = 1.0
"""Age of a word in seconds from which its error rate is assumed to be stable."""

TimedText = tuple[float, float, str]
"""Start and end of a reference segment in seconds, and its text."""

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]

_TimedWords = tuple[float, float, list[str]]

_BAND = (5, 95)
"""Percentiles of the 90 % band."""


def plain_words(text: str, spaced: bool = True) -> list[str]:
    """Return the words or characters of ``text``, case-folded and without punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")  # noqa: RUF001
    folded = folded.replace("\u0e4d\u0e32", "\u0e33")  # NFKC splits a Thai vowel into two
    chars: list[str] = []
    for char in folded:
        category = unicodedata.category(char)
        # Format characters, e.g. soft hyphens and joiners, stand inside words.
        if category == "Cf":
            continue
        # Marks are vowels in Hindi, Thai and Arabic.
        in_word = category[0] in "LMN" or char == "'"
        chars.append(char if in_word else " ")
    words: list[str] = []
    for word in "".join(chars).split():
        bare = word.strip("'")
        if bare:
            words.append(bare)
    if spaced:
        return words
    # Counted in words, perfect transcripts of Chinese, Japanese or Thai had errors of 260 to 600 %.
    return list("".join(words))


def reference_transcripts(devset: DevSet) -> dict[str, list[TimedText]]:
    """Return the reference segments of each talk.

    Raises:
        DevSetError: the dev set contains no transcript of the speech.
    """
    if devset.transcript is None:
        raise DevSetError(f"{devset.segmentation.parent / 'ref'} contains no speech transcript")
    references: dict[str, list[TimedText]] = {}
    for span, line in zip(devset.segments, read_lines(devset.transcript), strict=True):
        segments = references.setdefault(span.talk, [])
        segments.append((span.offset_s, span.end_s, line.strip()))
    return references


def streamed_transcripts(records: Iterable[TalkStep]) -> dict[str, str]:
    """Return the committed transcript of each talk."""
    transcripts: dict[str, list[str]] = {}
    for record in records:
        words = transcripts.setdefault(record.talk, [])
        for sentence in record.heard.sentences:
            words.extend(word.text for word in sentence)
    return {talk: " ".join(words) for talk, words in transcripts.items()}


def word_error_rate(devset: DevSet, transcripts: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return word error rates in percent, ignoring case and punctuation.

    The keys are ``wer`` over all talks, ``wer_interval`` (95 % bootstrap interval over segments),
    ``wer_TALK`` for each talk, ``wer_exact`` (with case and punctuation) and ``cer`` (characters).

    Raises:
        DevSetError: the dev set contains no transcript of the speech, or one without words.
    """
    import jiwer

    spaced = language(source).spaced
    space = " " if spaced else ""
    errors: list[Counts] = []
    words: list[Counts] = []
    talk_rates: dict[str, float] = {}
    # Reference and transcript of each talk, with and without case and punctuation.
    exact_references: list[str] = []
    exact_transcripts: list[str] = []
    plain_references: list[str] = []
    plain_transcripts: list[str] = []
    for talk, segments in reference_transcripts(devset).items():
        texts = [text for _, _, text in segments]
        reference = " ".join(texts)
        plain_reference = plain_words(reference, spaced)
        if not plain_reference:  # jiwer refuses an empty reference
            continue
        transcript = transcripts.get(talk, "")
        talk_errors, talk_words = segment_errors(texts, transcript, spaced)
        errors.append(talk_errors)
        words.append(talk_words)
        talk_rates[f"wer_{talk}"] = _percent(talk_errors.sum() / talk_words.sum())
        exact_references.append(space.join(reference.split()))
        exact_transcripts.append(space.join(transcript.split()))
        plain_references.append(space.join(plain_reference))
        plain_transcripts.append(space.join(plain_words(transcript, spaced)))
    if not errors:
        raise DevSetError(f"{devset.transcript} contains no words")
    rate = micro(np.concatenate(errors), np.concatenate(words))
    exact_rate = jiwer.wer if spaced else jiwer.cer
    return {
        "wer": _percent(rate.value),
        "wer_interval": [_percent(rate.low), _percent(rate.high)],
        "wer_exact": _percent(exact_rate(exact_references, exact_transcripts)),
        "cer": _percent(jiwer.cer(plain_references, plain_transcripts)),
        **talk_rates,
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

    reference: list[str] = []
    segment_of_word: list[int] = []
    words = np.zeros(len(segments), np.int64)
    for number, segment in enumerate(segments):
        segment_words = plain_words(segment, spaced)
        words[number] = len(segment_words)
        reference += segment_words
        segment_of_word += [number] * len(segment_words)
    hypothesis = plain_words(transcript, spaced)
    # The whole talk is aligned at once, because a streamed transcript has no segment borders.
    output = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
    errors = np.zeros_like(words)
    for chunk in output.alignments[0]:
        if chunk.type == "equal":
            continue
        if chunk.type == "insert":
            # Inserted words count for the segment of the next word, or for the last segment.
            following = min(chunk.ref_start_idx, len(reference) - 1)
            errors[segment_of_word[following]] += chunk.hyp_end_idx - chunk.hyp_start_idx
        else:
            for position in range(chunk.ref_start_idx, chunk.ref_end_idx):
                errors[segment_of_word[position]] += 1
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
            rates = _resampled_rates(self.errors, self.words)
            low, high = np.nanpercentile(rates, _BAND, axis=0)
        return low, high

    def hold_back_s(self) -> float | None:
        """Return the distance from which the error rate is stable, or ``None`` for too few words.

        This distance is the start of the first bin whose error rate is not above the band of all
        words that are at least ``PLATEAU_S`` seconds old.
        """
        settled = np.array(self.edges_s[:-1]) >= PLATEAU_S - 1e-9  # bins of stable words
        errors = self.errors[:, settled].sum(1)
        words = self.words[:, settled].sum(1)
        if not words.any():
            return None
        limit = np.nanpercentile(_resampled_rates(errors, words), _BAND[1])
        # A bin without words has the rate NaN, which is not below any limit.
        for start_s, rate in zip(self.edges_s, self.rates(), strict=False):
            if rate <= limit:
                return start_s
        return None


def tail_errors(
    records: Iterable[TalkStep],
    references: Mapping[str, Sequence[TimedText]],
    spaced: bool = True,
) -> TailErrors:
    """Compare the shown words of each chunk with the reference segments of their talk.

    Raises:
        DevSetError: a talk of the run is not in ``references``.
    """
    talks = list(references)
    errors = np.zeros((len(talks), BINS), np.int64)
    words = np.zeros((len(talks), BINS), np.int64)
    timed_words: dict[str, list[_TimedWords]] = {}
    for talk, segments in references.items():
        timed_words[talk] = [
            (start_s, end_s, plain_words(text, spaced)) for start_s, end_s, text in segments
        ]
    for record in records:
        shown = record.heard.live.words
        if not shown:
            continue
        if record.talk not in references:
            raise DevSetError(f"the talk {record.talk} of the run is not in the dev set")
        talk_row = talks.index(record.talk)
        window = _words_between(
            timed_words[record.talk],
            begin_s=shown[0].start - BEFORE_S,
            end_s=record.audio_s + AFTER_S,
        )
        hypothesis: list[str] = []
        word_ends_s: list[float] = []
        # A word of the recognizer can be several words without punctuation, or none.
        for word in shown:
            parts = plain_words(word.text, spaced)
            hypothesis += parts
            word_ends_s += [word.end] * len(parts)
        for word_end_s, correct in zip(word_ends_s, matches(hypothesis, window), strict=True):
            distance_s = record.audio_s - word_end_s
            # Without the small addition, rounding would put a distance on an edge below it.
            place = int(distance_s / BIN_S + 1e-9)
            if 0 <= place < BINS:
                words[talk_row, place] += 1
                errors[talk_row, place] += not correct
    edges_s = tuple(number * BIN_S for number in range(BINS + 1))
    return TailErrors(edges_s, errors, words)


def _words_between(segments: Sequence[_TimedWords], begin_s: float, end_s: float) -> list[str]:
    """Return the words of all segments that overlap a range of time."""
    # Single words have no times, so the range is wider than the utterance; `matches` chooses the
    # part of it that fits.
    words: list[str] = []
    for segment_start_s, segment_end_s, segment_words in segments:
        if segment_start_s < end_s and segment_end_s > begin_s:
            words += segment_words
    return words


def matches(hypothesis: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Return which words of ``hypothesis`` are correct.

    The hypothesis is aligned with the part of ``reference`` that needs the fewest edits.
    """
    n = len(hypothesis)
    m = len(reference)
    edit = 2 * n + 1  # among alignments with the fewest edits, prefer the most correct words
    # cost[i][j] is the lowest cost of the first i words of the hypothesis, if they end at word j of
    # the reference. The first row is 0, because words before the aligned part cost nothing.
    cost = [[0] * (m + 1)]

    def paired(i: int, j: int) -> int:
        if hypothesis[i - 1] == reference[j - 1]:
            return cost[i - 1][j - 1] - 1
        return cost[i - 1][j - 1] + edit

    for i in range(1, n + 1):
        row = [i * edit]
        cost.append(row)
        for j in range(1, m + 1):
            inserted = cost[i - 1][j] + edit
            deleted = row[j - 1] + edit
            row.append(min(paired(i, j), inserted, deleted))
    # Follow the path back from the cheapest end; words after it cost nothing, either.
    correct = [False] * n
    i = n
    j = cost[n].index(min(cost[n]))
    while i > 0:
        if j > 0 and cost[i][j] == paired(i, j):
            correct[i - 1] = hypothesis[i - 1] == reference[j - 1]
            i -= 1
            j -= 1
        elif cost[i][j] == cost[i - 1][j] + edit:
            i -= 1
        else:
            j -= 1
    return correct


def _resampled_rates(errors: Counts, words: Counts) -> Rates:
    """Return the rates for 1000 resamples of the talks, ``[resamples, ...]``."""
    # The seed is fixed, so that the same counts get the same band.
    picks = np.random.default_rng(1).integers(0, len(words), (1000, len(words)))
    return _rate(errors[picks].sum(1), words[picks].sum(1))


def _rate(errors: Counts, words: Counts) -> Rates:
    with np.errstate(all="ignore"):
        return np.where(words > 0, errors / np.maximum(words, 1), np.nan)


def _percent(rate: float) -> float:
    return round(100 * float(rate), 3)
