"""A dev set on disk and everything that can be wrong with it before a model is loaded.

Layout (the one of the IWSLT 2026 MCIF dev set)::

    DIR/audio-segments.yaml      list of {wav, offset, duration}, grouped by recording, seconds
    DIR/ref/{de,it,zh}.txt       one line per segment, in the same order
    DIR/wav/*.wav                one unsegmented talk each, 16 kHz mono 16-bit (or beside the YAML)
"""

from __future__ import annotations

import itertools
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.nouns import SAMPLE_RATE

SEGMENTATION = "audio-segments.yaml"
_TOLERANCE_S = 0.5


class DevSetError(ValueError):
    """A dev set cannot be evaluated; the message lists every problem that was found."""


@dataclass(frozen=True, slots=True)
class Talk:
    """One unsegmented recording; ``seconds`` is its length."""

    wav: Path
    seconds: float


@dataclass(frozen=True, slots=True)
class DevSet:
    """A checked dev set.

    Attributes:
        segmentation: the YAML file of segments.
        talks: recordings in the order of the segmentation.
        references: reference file of each target code.
        segments: number of segments.
    """

    segmentation: Path
    talks: tuple[Talk, ...]
    references: dict[str, Path]
    segments: int

    @property
    def seconds(self) -> float:
        """Length of all talks together."""
        return sum(talk.seconds for talk in self.talks)


def load_devset(root: Path, targets: Sequence[str]) -> DevSet:
    """Find and check the files of a dev set.

    Args:
        root: its directory.
        targets: target language codes whose references are needed.

    Raises:
        DevSetError: something is missing or does not fit.
    """
    segmentation = root / SEGMENTATION
    if not segmentation.is_file():
        raise DevSetError(
            f"{segmentation} does not exist; a dev set has {SEGMENTATION}, ref/LANGUAGE.txt and "
            f"wav/*.wav"
        )
    entries = _read_segments(segmentation)
    problems: list[str] = []
    talks: list[Talk] = []
    for name, group in itertools.groupby(entries, key=lambda item: str(item["wav"])):
        segments = list(group)
        try:
            wav = find_wav(root, name)
            talk = Talk(wav.resolve(), wav_seconds(wav))
            talks.append(talk)
        except DevSetError as error:
            problems.append(str(error))
            continue
        end = max(float(item["offset"]) + float(item["duration"]) for item in segments)
        if end > talk.seconds + _TOLERANCE_S:
            problems.append(
                f"{SEGMENTATION}: a segment of {name} ends at {end:.2f} s, "
                f"but {wav} is {talk.seconds:.2f} s long"
            )
    stems = [talk.wav.stem for talk in talks]
    problems.extend(
        f"{SEGMENTATION}: the segments of {stem} are not in one block; scorers match recordings "
        f"by name, so group them"
        for stem in sorted({stem for stem in stems if stems.count(stem) > 1})
    )
    references = {target: root / "ref" / f"{target}.txt" for target in targets}
    problems.extend(_check_references(references, len(entries)))
    if problems:
        raise DevSetError(f"{root} cannot be evaluated\n  " + "\n  ".join(problems))
    return DevSet(segmentation, tuple(talks), references, len(entries))


def find_wav(root: Path, name: str) -> Path:
    """Find the recording that a segmentation calls ``name``.

    Raises:
        DevSetError: it is in none of the known places.
    """
    base = Path(name).name
    places = [root / "wav" / base, root / name, root / base]
    for place in places:
        if place.is_file():
            return place
    raise DevSetError(f"{base} is neither in {root / 'wav'} nor in {root}")


def wav_seconds(path: Path) -> float:
    """Return the length of a WAV file that Simulstream chunks correctly.

    Raises:
        DevSetError: it is not 16 kHz mono 16-bit PCM, or it is empty; the message has the fix.
    """
    fix = (
        f"convert the whole file: ffmpeg -i {path} -ar {SAMPLE_RATE} -ac 1 -sample_fmt s16 NEW.wav"
    )
    try:
        with wave.open(str(path), "rb") as stream:
            rate, channels = stream.getframerate(), stream.getnchannels()
            bits, frames = 8 * stream.getsampwidth(), stream.getnframes()
    except (wave.Error, EOFError) as error:
        raise DevSetError(f"{path} is not a PCM WAV file ({error}); {fix}") from None
    if (rate, channels, bits) != (SAMPLE_RATE, 1, 16):
        raise DevSetError(
            f"{path} is {rate} Hz, {channels} channel(s), {bits} bit; "
            f"expected {SAMPLE_RATE} Hz, 1 channel, 16 bit; {fix}"
        )
    if frames == 0:
        raise DevSetError(f"{path} holds no audio")
    return frames / rate


def _read_segments(path: Path) -> list[dict[str, Any]]:
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise DevSetError(f"{path} is not YAML: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise DevSetError(f"{path} must be a list of segments with wav, offset and duration")
    for number, entry in enumerate(entries, 1):
        numbers = [entry.get(key) for key in ("offset", "duration")] if _named(entry) else [None]
        if not all(isinstance(value, int | float) and value >= 0 for value in numbers):
            raise DevSetError(
                f"{path}: segment {number} is {entry!r}; expected wav, offset >= 0 and "
                f"duration >= 0 in seconds"
            )
    return entries


def _named(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("wav"), str)


def _check_references(references: dict[str, Path], segments: int) -> list[str]:
    problems: list[str] = []
    for path in references.values():
        if not path.is_file():
            problems.append(f"{path} does not exist")
            continue
        with path.open(encoding="utf-8") as stream:
            lines = sum(1 for _ in stream)
        if lines != segments:
            problems.append(
                f"{path} has {lines} lines, {SEGMENTATION} has {segments} segments; "
                f"they must agree line by line"
            )
    return problems
