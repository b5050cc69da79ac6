"""Delays of single units, from the segments that OmniSTEval found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.evaluation.devset import DevSet


@dataclass(frozen=True, slots=True)
class Unit:
    """One emitted unit (a word, or a character of Chinese).

    Attributes:
        talk: stem of its recording.
        segment: index of its reference segment.
        ideal_s: when an ideal interpreter would have said it: the start of the segment, plus the
            share of it that goes before (LongYAAL's i/gamma); seconds from the start.
        cu_s: audio heard when it was emitted.
        ca_s: the same plus the computation of its chunk.
        counted: whether LongYAAL CU counts it; it leaves out what comes after the recording.
    """

    talk: str
    segment: int
    ideal_s: float
    cu_s: float
    ca_s: float
    counted: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A reference segment with what was aligned to it.

    Attributes:
        talk: stem of its recording.
        prediction: text of its units.
        reference: its reference.
        offset_s: where it starts.
        duration_s: how long it is.
        cu_ms: audio heard at each unit, from its own start.
        ca_ms: the same plus the computation of the chunk.
        end_ms: end of the recording from the start of the segment.
        unit: ``word`` or ``char``.
    """

    talk: str
    prediction: str
    reference: str
    offset_s: float
    duration_s: float
    cu_ms: tuple[float, ...]
    ca_ms: tuple[float, ...]
    end_ms: float
    unit: str

    @property
    def pace_ms(self) -> float:
        """LongYAAL's 1/gamma: time that each unit of an ideal interpreter takes."""
        return 1000 * self.duration_s / max(len(self.cu_ms), _length(self.reference, self.unit))

    def yaal_ms(self, aware: bool = False) -> float | None:
        """LongYAAL of this segment; ``None`` where OmniSTEval skips it."""
        delays = self.ca_ms if aware else self.cu_ms
        lags = []
        for place, delay in enumerate(delays):
            if delay >= self.end_ms:
                break
            lags.append(delay - place * self.pace_ms)
        return sum(lags) / len(lags) if lags else None

    def units(self, index: int) -> list[Unit]:
        """The units of this segment, which has this index."""
        ended = next((k for k, delay in enumerate(self.cu_ms) if delay >= self.end_ms), None)
        aware = self.ca_ms or self.cu_ms
        return [
            Unit(
                talk=self.talk,
                segment=index,
                ideal_s=self.offset_s + place * self.pace_ms / 1000,
                cu_s=self.offset_s + cu / 1000,
                ca_s=self.offset_s + ca / 1000,
                counted=ended is None or place < ended,
            )
            for place, (cu, ca) in enumerate(zip(self.cu_ms, aware, strict=True))
        ]


def read_segments(instances: Path, devset: DevSet, unit: str) -> list[Segment]:
    """Read ``instances.resegmented.jsonl``.

    Raises:
        ValueError: it belongs to another segmentation.
    """
    listing = yaml.load(devset.segmentation.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    lines = instances.read_text(encoding="utf-8").splitlines()
    if len(lines) != len(listing):
        raise ValueError(
            f"{instances} has {len(lines)} segments, {devset.segmentation} {len(listing)}"
        )
    return [
        _segment(json.loads(text), entry, unit) for text, entry in zip(lines, listing, strict=True)
    ]


def all_units(segments: Sequence[Segment]) -> list[Unit]:
    """The units of all segments in order."""
    return [unit for index, segment in enumerate(segments) for unit in segment.units(index)]


def _segment(line: dict[str, Any], entry: dict[str, Any], unit: str) -> Segment:
    return Segment(
        talk=Path(str(entry["wav"])).stem,
        prediction=line["prediction"],
        reference=line["reference"],
        offset_s=float(entry["offset"]),
        duration_s=float(entry["duration"]),
        cu_ms=tuple(line.get("emission_cu", ())),
        ca_ms=tuple(line.get("emission_ca", ())),
        end_ms=line.get("time_to_recording_end", float("inf")),
        unit=unit,
    )


def _length(text: str, unit: str) -> int:
    return len(text.strip()) if unit == "char" else len(text.split(" "))
