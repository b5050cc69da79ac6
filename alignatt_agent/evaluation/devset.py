"""Find and check dev sets before models are loaded; `simulstream-eval --help` shows the layout."""

import hashlib
import itertools
import math
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from unicodedata import normalize

import soundfile
import yaml

from alignatt_agent.audio.recording import AudioError
from alignatt_agent.audio.wav_header import undeclared, undeclared_seconds
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.resources import read_lines, read_text
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.config.yaml_text import read_yaml
from alignatt_agent.evaluation.audio import converted
from alignatt_agent.evaluation.text_notes import text_notes
from alignatt_agent.types import SAMPLE_RATE, AlignAttError

SEGMENTATION = "audio-segments.yaml"
FOLDERS = ("wav", "audio")
SUFFIXES = (".wav", ".flac", ".mp3", ".mp4", ".m4a", ".mkv", ".webm", ".ogg", ".opus", ".aac")
"""Suffixes to try for the name of a recording."""
_TOLERANCE_S = 0.5
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


@dataclass(frozen=True, slots=True)
class Talk:
    """One unsegmented recording; without audio, ``seconds`` is the end of its last segment."""

    wav: Path
    seconds: float

    @property
    def name(self) -> str:
        """File stem of the recording; the scorers match recordings by this stem."""
        return self.wav.stem


@dataclass(frozen=True, slots=True)
class DevSet:
    """A checked dev set, in the order of its segmentation.

    ``references`` maps target codes to files. ``transcript`` is the file in the spoken language.
    ``notes`` lists corrections and irregularities.
    """

    segmentation: Path
    talks: tuple[Talk, ...]
    references: dict[str, Path]
    segments: tuple[Span, ...]
    transcript: Path | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def seconds(self) -> float:
        """Total length of all talks, in seconds."""
        return sum(talk.seconds for talk in self.talks)

    def digest(self, target: str) -> str:
        """Return the size of the dev set, and a hash of the segmentation and the references."""
        files = (self.segmentation, self.references[target])
        digest = short_digest(path.read_bytes() for path in files)
        counts = f"{len(self.talks)} talks, {len(self.segments)} segments"
        return f"{counts}, sha256:{digest}"

    def audio_digest(self) -> str:
        """Return the total length and a hash of the streamed recordings."""
        file_digests: list[bytes] = []
        for talk in self.talks:
            with talk.wav.open("rb") as stream:
                file_digests.append(hashlib.file_digest(stream, "sha256").digest())
        return f"{self.seconds:.1f} s, sha256:{short_digest(file_digests)}"


def load_devset(
    root: Path,
    targets: Sequence[str],
    work: Path | None = None,
    source: str = "en",
    audio: bool = True,
) -> DevSet:
    """Find and check the files of a dev set; one ``DevSetError`` lists all problems.

    Files that Simulstream or the scorers misread are converted and stored in the folder ``work``.
    If ``work`` is ``None``, they are rejected. ``audio`` is not required for scoring a log.
    """
    segmentation = root / SEGMENTATION
    if not segmentation.is_file():
        raise DevSetError(
            f"{segmentation} does not exist; a dev set contains {SEGMENTATION}, ref/LANGUAGE.txt "
            f"and wav/*.wav"
        )
    spans = _read_segments(segmentation)
    problems: list[str] = []
    notes = [*_order_notes(spans)]
    talks: list[Talk] = []
    names: list[str] = []
    folders = filter(Path.is_dir, (root, *(root / folder for folder in reversed(FOLDERS))))
    files = {normalize("NFC", x.name): x for folder in folders for x in folder.iterdir()}
    for name, group in itertools.groupby(spans, key=lambda span: span.wav):
        end_s = max(span.end_s for span in group)
        suffix = Path(name).suffix[1:]  # names of 2022.acl-long.367 have no suffix
        file = Path(name).name + ("" if suffix.isalnum() and not suffix.isdigit() else ".wav")
        talk = Talk(root / "wav" / file, end_s)
        try:
            if audio:
                talk = _talk(find_wav(root, name, files), name, end_s, work, notes)
        except (DevSetError, AudioError) as error:
            problems.append(str(error))
        talks.append(talk)
        names.append(name)
    for name, count in Counter(talk.name for talk in talks).items():
        if count > 1:
            problems.append(
                f"{SEGMENTATION}: {name} has {count} groups of segments, but scorers match talks "
                f"by file stem: list the segments of each talk together, and use different stems"
            )
    references = {target: root / "ref" / f"{target}.txt" for target in targets}
    transcript = root / "ref" / f"{source}.txt"
    known = transcript if transcript.is_file() else None
    texts = dict.fromkeys([*references.values(), *([known] if known else [])])
    problems.extend(_check_references(texts, spans, notes))
    if (root / CONTEXTS).is_dir():
        given = {normalize("NFC", path.stem) for path in (root / CONTEXTS).glob("*.txt")}
        talk_names = {normalize("NFC", talk.name) for talk in talks}
        for name in sorted(talk_names ^ given):
            lacking = "does not exist" if name in talk_names else "belongs to no talk"
            notes.append(f"{root / CONTEXTS / name}.txt {lacking}")
    if problems:
        raise DevSetError(f"{root} cannot be evaluated\n  " + "\n  ".join(problems))
    called = {name: talk.wav.name for name, talk in zip(names, talks, strict=True)}
    segments = tuple(replace(span, wav=called[span.wav]) for span in spans)
    found = DevSet(segmentation, tuple(talks), references, segments, known, tuple(notes))
    return _adapted(found, names, work)


def _adapted(found: DevSet, names: Sequence[str], work: Path | None) -> DevSet:
    """Put corrected copies of files that scorers misread into ``work``, or reject such files."""
    paths = [path for path in found.references.values() if path.read_bytes()[:3] == BOM_UTF8]
    if [Path(name).stem for name in names] != [talk.name for talk in found.talks]:
        paths.append(found.segmentation)
    if not (paths and found.references):
        return found
    said = ", ".join(str(path) for path in paths)
    said += ": scorers misread byte order marks and names that differ from the file names"
    if work is None:
        raise DevSetError(f"{said}; remove the marks and correct the names")
    folder = work / "devset"
    originals = [found.segmentation, *found.references.values()]
    if folder.resolve() in [path.resolve().parent for path in originals]:
        raise DevSetError(
            f"{said}; corrected copies would replace the files: choose another --output"
        )
    folder.mkdir(parents=True, exist_ok=True)
    keys = ("wav", "offset", "duration")
    rows = [dict(zip(keys, astuple(span), strict=True)) for span in found.segments]
    texts = {path.name: read_text(path) for path in found.references.values()}
    texts[SEGMENTATION] = yaml.safe_dump(rows, allow_unicode=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return replace(
        found,
        segmentation=folder / SEGMENTATION,
        references={code: folder / path.name for code, path in found.references.items()},
        notes=(*found.notes, f"{said}; corrected copies are in {folder}"),
    )


def _talk(wav: Path, name: str, end_s: float, work: Path | None, notes: list[str]) -> Talk:
    try:
        seconds = wav_seconds(wav)
    except DevSetError:
        if work is None:
            raise
        wav, note = converted(wav, work / "audio")
        seconds = wav_seconds(wav)
        notes.append(note)
    rest_s = undeclared_seconds(wav)
    if end_s > seconds + _TOLERANCE_S:
        more = f"; {undeclared(rest_s)}" if rest_s else ""
        raise DevSetError(
            f"{SEGMENTATION}: a segment of {name} ends at {end_s:.2f} s, "
            f"but {wav} is {seconds:.2f} s long{more}"
        )
    if rest_s:
        notes.append(f"{wav.name}: {undeclared(rest_s)}")
    return Talk(wav.resolve(), seconds)


def find_wav(root: Path, name: str, files: Mapping[str, Path]) -> Path:
    """Find the recording ``name`` of a segmentation, in any file format."""
    base = Path(name).name
    # A name without a suffix may contain dots, and macOS decomposes accented characters.
    names = [base, *(stem + suffix for stem in (base, Path(base).stem) for suffix in SUFFIXES)]
    for item in (normalize("NFC", name) for name in names):
        if item in files:
            return files[item]
    if (root / name).is_file():
        return root / name
    raise DevSetError(f"{base} is not in {root} or its subfolders {', '.join(FOLDERS)}")


def wav_seconds(path: Path) -> float:
    """Return the length of a 16 kHz mono 16-bit WAV file, which Simulstream chunks correctly."""
    fix = (
        f"convert the whole file: ffmpeg -i {path} -ar {SAMPLE_RATE} -ac 1 -sample_fmt s16 NEW.wav"
    )
    try:
        info = soundfile.info(str(path))
    except soundfile.LibsndfileError as error:
        raise DevSetError(f"{path} is not a WAV file ({error}); {fix}") from None
    found = f"{info.format}, {info.subtype}, {info.samplerate} Hz, {info.channels} channel(s)"
    expected = f"WAV, PCM_16, {SAMPLE_RATE} Hz, 1 channel(s)"
    if found != expected:
        raise DevSetError(f"{path} is {found}; expected {expected}; {fix}")
    if info.frames == 0:
        raise DevSetError(f"{path} contains no audio")
    return float(info.frames / info.samplerate)


def _read_segments(path: Path) -> list[Span]:
    try:
        entries = read_yaml(path)
    except ConfigError as error:
        raise DevSetError(str(error)) from None
    if not isinstance(entries, list) or not entries:
        raise DevSetError(f"{path} must contain a list of segments with wav, offset and duration")
    spans: list[Span] = []
    for number, entry in enumerate(entries, 1):
        match entry:
            case {"wav": str(wav), "offset": begin, "duration": length} if (
                _is_seconds(begin) and _is_seconds(length) and length > 0
            ):
                spans.append(Span(wav, float(begin), float(length)))
            case _:
                raise DevSetError(
                    f"{path}: segment {number} is {entry!r}; expected wav, offset >= 0 and "
                    f"duration > 0 in seconds"
                )
    return spans


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _order_notes(spans: Sequence[Span]) -> Iterator[str]:
    """Yield notes on segments of a talk that are out of order or overlap."""
    misplaced: list[int] = []
    overlapping: list[int] = []
    for number, (before, span) in enumerate(itertools.pairwise(spans), 2):
        if span.wav != before.wav:
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


def _check_references(
    paths: Iterable[Path], spans: Sequence[Span], notes: list[str]
) -> Iterator[str]:
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
        if quoted := sum(line[:1] == line[-1:] == '"' and '""' in line for line in lines):
            notes.append(f"{path.name}: {quoted} line(s) with CSV quotes, which are scored as text")
        notes += [f"{path.name}: {note}" for note in text_notes(lines, "line")]
        empty = [number for number, line in enumerate(lines, 1) if not line]
        spoken = {span.wav for span, line in zip(spans, lines, strict=False) if line}
        if bare := ", ".join(dict.fromkeys(x.wav for x in spans if x.wav not in spoken)):
            yield (
                f"{path}: all lines of {bare} are empty, but OmniSTEval needs a word of each talk: "
                f"write references, or remove the talk from this file and from {SEGMENTATION}"
            )
        elif empty:
            notes.append(f"{path.name}: {len(empty)} empty reference(s) (first: line {empty[0]})")
