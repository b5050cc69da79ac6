"""Word error rates of what the speech side heard."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import groupby

from alignatt_agent.evaluation.devset import DevSet, DevSetError
from alignatt_agent.evaluation.trace import TalkStep

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
