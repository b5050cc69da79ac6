"""A dev set on disk, checked before a model is loaded; `simulstream-eval --help` has its layout."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import soundfile
import yaml

from alignatt_agent.config.sections import CONTEXTS
from alignatt_agent.evaluation.audio import converted
from alignatt_agent.types import SAMPLE_RATE, AlignAttError
from alignatt_agent.types.audio import AudioError

SEGMENTATION = "audio-segments.yaml"
FOLDERS = ("wav", "audio")
SUFFIXES = (".wav", ".flac", ".mp3", ".mp4", ".m4a", ".mkv", ".webm", ".ogg", ".opus", ".aac")
"""Kinds of files that are looked for under the name of a recording."""
_TOLERANCE_S = 0.5


class DevSetError(AlignAttError, ValueError):
    """A dev set cannot be evaluated; the message lists every problem that was found."""


@dataclass(frozen=True, slots=True)
class Span:
    """One reference segment of the recording ``wav``, as the segmentation names it."""

    wav: str
    offset_s: float
    duration_s: float

    @property
    def talk(self) -> str:
        """Stem of the recording, by which scorers match."""
        return Path(self.wav).stem

    @property
    def end_s(self) -> float:
        """Where it ends."""
        return self.offset_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Talk:
    """One unsegmented recording; without audio, ``seconds`` is the end of its last segment."""

    wav: Path
    seconds: float

    @property
    def name(self) -> str:
        """Stem of the file, by which scorers match."""
        return self.wav.stem


@dataclass(frozen=True, slots=True)
class DevSet:
    """A checked dev set, in the order of its segmentation.

    ``references`` are files by target code, ``transcript`` is that of the spoken language;
    ``notes`` tell the user what was changed or looks odd.
    """

    segmentation: Path
    talks: tuple[Talk, ...]
    references: dict[str, Path]
    segments: tuple[Span, ...]
    transcript: Path | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def seconds(self) -> float:
        """Length of all talks together."""
        return sum(talk.seconds for talk in self.talks)

    def digest(self, target: str) -> str:
        """Name what a score is computed on: size, and a hash of segmentation and references."""
        digest = hashlib.sha256()
        for path in (self.segmentation, self.references[target]):
            digest.update(path.read_bytes())
        counts = f"{len(self.talks)} talks, {len(self.segments)} segments"
        return f"{counts}, sha256:{digest.hexdigest()[:12]}"

    def audio_digest(self) -> str:
        """Return length and hash of the recordings as they are streamed."""
        digest = hashlib.sha256()
        for talk in self.talks:
            with talk.wav.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return f"{self.seconds:.1f} s, sha256:{digest.hexdigest()[:12]}"


def load_devset(
    root: Path,
    targets: Sequence[str],
    converted_to: Path | None = None,
    source: str = "en",
    audio: bool = True,
) -> DevSet:
    """Find and check the files of a dev set; all problems are in one ``DevSetError``.

    What Simulstream cannot read is converted into ``converted_to``, or refused without it;
    re-scoring a log needs no ``audio``.
    """
    segmentation = root / SEGMENTATION
    if not segmentation.is_file():
        raise DevSetError(
            f"{segmentation} does not exist; a dev set has {SEGMENTATION}, ref/LANGUAGE.txt and "
            f"wav/*.wav"
        )
    spans = _read_segments(segmentation)
    problems: list[str] = []
    notes: list[str] = []
    talks: list[Talk] = []
    names: list[str] = []
    for name, group in itertools.groupby(spans, key=lambda span: span.wav):
        names.append(name)
        end_s = max(span.end_s for span in group)
        try:
            if audio:
                talks.append(_talk(root, name, end_s, converted_to, notes))
            else:
                talks.append(Talk(root / "wav" / Path(name).name, end_s))
        except (DevSetError, AudioError) as error:
            problems.append(str(error))
    problems.extend(_check_names(names))
    references = {target: root / "ref" / f"{target}.txt" for target in targets}
    transcript = root / "ref" / f"{source}.txt"
    known = transcript if transcript.is_file() else None
    texts = dict.fromkeys([*references.values(), *([known] if known else [])])
    problems.extend(_check_references(texts, len(spans), notes))
    if (root / CONTEXTS).is_dir():
        given = {path.stem for path in (root / CONTEXTS).glob("*.txt")}
        talk_names = {Path(name).stem for name in names}
        for name in sorted(talk_names ^ given):
            lacking = "is missing" if name in talk_names else "belongs to no talk"
            notes.append(f"{root / CONTEXTS / name}.txt {lacking}")
    if problems:
        raise DevSetError(f"{root} cannot be evaluated\n  " + "\n  ".join(problems))
    return DevSet(segmentation, tuple(talks), references, tuple(spans), known, tuple(notes))


def _talk(root: Path, name: str, end_s: float, converted_to: Path | None, notes: list[str]) -> Talk:
    wav = find_wav(root, name)
    try:
        seconds = wav_seconds(wav)
    except DevSetError:
        if converted_to is None:
            raise
        wav, note = converted(wav, converted_to)
        seconds = wav_seconds(wav)
        notes.append(note)
    if end_s > seconds + _TOLERANCE_S:
        raise DevSetError(
            f"{SEGMENTATION}: a segment of {name} ends at {end_s:.2f} s, "
            f"but {wav} is {seconds:.2f} s long"
        )
    return Talk(wav.resolve(), seconds)


def _check_names(names: Sequence[str]) -> Iterator[str]:
    """Scorers match recordings by the stem of their name."""
    stems = [Path(name).stem for name in names]
    for stem in sorted({stem for stem in stems if stems.count(stem) > 1}):
        alike = sorted({name for name in names if Path(name).stem == stem})
        if len(alike) > 1:
            yield (
                f"{SEGMENTATION}: {' and '.join(alike)} are both {stem} to the scorers, which "
                f"match recordings by name; rename one"
            )
        else:
            yield (
                f"{SEGMENTATION}: the segments of {stem} are not in one block; scorers match "
                f"recordings by name, so group them"
            )


def find_wav(root: Path, name: str) -> Path:
    """Find the recording that a segmentation calls ``name``, in any kind of file."""
    base = Path(name).name
    places = [*(root / folder / base for folder in FOLDERS), root / name, root / base]
    others = [place.with_suffix(suffix) for suffix in SUFFIXES for place in places]
    for place in (*places, *others):
        if place.is_file():
            return place
    raise DevSetError(f"{base} is neither in {root} nor in its folders {', '.join(FOLDERS)}")


def wav_seconds(path: Path) -> float:
    """Return the length of a 16 kHz mono 16-bit WAV file, which Simulstream chunks correctly."""
    fix = (
        f"convert the whole file: ffmpeg -i {path} -ar {SAMPLE_RATE} -ac 1 -sample_fmt s16 NEW.wav"
    )
    try:
        info = soundfile.info(str(path))
    except soundfile.LibsndfileError as error:
        raise DevSetError(f"{path} is not a PCM WAV file ({error}); {fix}") from None
    coding, _, bits = info.subtype.partition("_")
    if (info.format, coding) != ("WAV", "PCM"):
        found = f"{info.format}, {info.subtype}"
        raise DevSetError(f"{path} is not a PCM WAV file ({found}); {fix}")
    if (info.samplerate, info.channels, bits) != (SAMPLE_RATE, 1, "16"):
        raise DevSetError(
            f"{path} is {info.samplerate} Hz, {info.channels} channel(s), {bits} bit; "
            f"expected {SAMPLE_RATE} Hz, 1 channel, 16 bit; {fix}"
        )
    if info.frames == 0:
        raise DevSetError(f"{path} holds no audio")
    return float(info.frames / info.samplerate)


def _read_segments(path: Path) -> list[Span]:
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise DevSetError(f"{path} is not YAML: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise DevSetError(f"{path} must be a list of segments with wav, offset and duration")
    spans: list[Span] = []
    for number, entry in enumerate(entries, 1):
        match entry:
            case {
                "wav": str(wav),
                "offset": int() | float() as begin,
                "duration": int() | float() as length,
            } if begin >= 0 and length > 0:
                spans.append(Span(wav, float(begin), float(length)))
            case _:
                raise DevSetError(
                    f"{path}: segment {number} is {entry!r}; expected wav, offset >= 0 and "
                    f"duration > 0 in seconds"
                )
    return spans


def _check_references(paths: Iterable[Path], segments: int, notes: list[str]) -> Iterator[str]:
    for path in paths:
        if not path.is_file():
            yield f"{path} does not exist"
            continue
        with path.open(encoding="utf-8") as stream:
            lines = [line.strip() for line in stream]
        if len(lines) != segments:
            yield (
                f"{path} has {len(lines)} lines, {SEGMENTATION} has {segments} segments; "
                f"they must agree line by line"
            )
        if quoted := sum(line[:1] == line[-1:] == '"' and '""' in line for line in lines):
            notes.append(f"{path.name}: {quoted} lines are quoted as in a CSV file; so they score")
        empty = [number for number, line in enumerate(lines, 1) if not line]
        if empty and len(empty) == len(lines):
            yield f"{path} holds nothing but empty lines"
        elif empty:
            notes.append(f"{path.name}: {len(empty)} empty references (first in line {empty[0]})")
