"""Read and check the reference segments of a dev set: their times, references and transcript."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.resources import read_lines
from alignatt_agent.config.yaml_text import read_yaml
from alignatt_agent.evaluation.text_notes import text_notes
from alignatt_agent.types import AlignAttError

SEGMENTATION = "audio-segments.yaml"

_OVERLAP_S = 0.01
"""Overlap of two segments that comes from rounding, in seconds."""


class DevSetError(AlignAttError, ValueError):
    """A dev set cannot be evaluated; the message lists every problem."""


@dataclass(frozen=True, slots=True)
class Span:
    """One reference segment of the recording ``wav``."""

    wav: str
    offset_s: float
    duration_s: float

    @property
    def talk(self) -> str:
        """File stem of the recording; the scorers match recordings by this stem."""
        return Path(self.wav).stem

    @property
    def end_s(self) -> float:
        """End of the segment, in seconds."""
        return self.offset_s + self.duration_s


def read_segments(path: Path) -> list[Span]:
    """Read the segments of ``audio-segments.yaml``, in the order of the file.

    Raises:
        DevSetError: the file is not a list of segments.
    """
    try:
        entries = read_yaml(path)
    except ConfigError as error:
        raise DevSetError(str(error)) from None
    if not isinstance(entries, list) or not entries:
        raise DevSetError(f"{path} must contain a list of segments with wav, offset and duration")
    spans: list[Span] = []
    for number, entry in enumerate(entries, 1):
        match entry:
            # Other keys, e.g. speaker_id, are ignored.
            case {"wav": str(wav), "offset": begin, "duration": length} if (
                is_time(begin) and is_time(length) and length > 0
            ):
                spans.append(Span(wav, float(begin), float(length)))
            case _:
                raise DevSetError(
                    f"{path}: segment {number} is {entry!r}; expected wav, offset >= 0 and "
                    f"duration > 0 in seconds"
                )
    return spans


def is_time(value: object) -> bool:
    """Return whether a value of a file is a finite number of at least 0."""
    # In Python, bool is a kind of int, and YAML reads `yes` as a bool.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # NaN and infinity are outside, as are integers that are too large for a float.
    return 0 <= value <= sys.float_info.max


def order_notes(spans: Sequence[Span]) -> Iterator[str]:
    """Yield notes on segments of a talk that are out of order or overlap."""
    misplaced: list[int] = []
    overlapping: list[int] = []
    for number, (before, span) in enumerate(pairwise(spans), 2):
        if span.wav != before.wav:  # the first segment of the next talk
            continue
        if span.offset_s < before.offset_s:
            misplaced.append(number)
        elif span.offset_s < before.end_s - _OVERLAP_S:
            overlapping.append(number)
    if misplaced:
        yield (
            f"{SEGMENTATION}: {len(misplaced)} segment(s) begin before the segment above (first: "
            f"segment {misplaced[0]}); the scorers align output in the order of the file"
        )
    if overlapping:
        yield (
            f"{SEGMENTATION}: {len(overlapping)} segment(s) overlap the segment above by more than "
            f"{_OVERLAP_S:g} s (first: segment {overlapping[0]})"
        )


def reference_problems(
    paths: Iterable[Path], spans: Sequence[Span], notes: list[str]
) -> Iterator[str]:
    """Yield the problems of files with one line per segment; add irregularities to ``notes``."""
    for path in paths:
        try:
            lines = [line.strip() for line in read_lines(path)]
        except ConfigError as error:
            yield str(error)
            continue
        if len(lines) != len(spans):
            yield (
                f"{path} has {len(lines)} lines, but {SEGMENTATION} has {len(spans)} segments; "
                f"write one line per segment"
            )
        quoted = 0
        empty: list[int] = []
        for number, line in enumerate(lines, 1):
            if _is_csv_quoted(line):
                quoted += 1
            if not line:
                empty.append(number)
        if quoted:
            notes.append(f"{path.name}: {quoted} line(s) with CSV quotes, which are scored as text")
        notes += [f"{path.name}: {note}" for note in text_notes(lines, "line")]
        # Talks are removed when a line of theirs has text. Too few lines are reported above.
        without_text = dict.fromkeys(span.wav for span in spans)
        for span, line in zip(spans, lines, strict=False):
            if line:
                without_text.pop(span.wav, None)
        if without_text:
            yield (
                f"{path}: all lines of {', '.join(without_text)} are empty, but OmniSTEval needs a "
                f"word of each talk: write references, or remove the talk from this file and from "
                f"{SEGMENTATION}"
            )
        elif empty:
            notes.append(f"{path.name}: {len(empty)} empty reference(s) (first: line {empty[0]})")


def _is_csv_quoted(line: str) -> bool:
    """Return whether a line is a quoted CSV field that contains quotation marks."""
    # Some references of MCIF are published in this form.
    return line[:1] == line[-1:] == '"' and '""' in line
