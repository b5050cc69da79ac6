"""Find and check dev sets before models are loaded; `simulstream-eval --help` shows the layout."""

import hashlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from unicodedata import normalize

import soundfile
import yaml

from alignatt_agent.audio.recording import AudioError
from alignatt_agent.audio.wav_header import undeclared, undeclared_seconds
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.resources import read_text
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.evaluation.audio import converted
from alignatt_agent.evaluation.segments import (
    SEGMENTATION,
    DevSetError,
    Span,
    order_notes,
    read_segments,
    reference_problems,
)
from alignatt_agent.types import SAMPLE_RATE

FOLDERS = ("wav", "audio")
SUFFIXES = (".wav", ".flac", ".mp3", ".mp4", ".m4a", ".mkv", ".webm", ".ogg", ".opus", ".aac")
"""Suffixes to try for the name of a recording."""

_TOLERANCE_S = 0.5
"""Time by which a segment may end after its recording, in seconds."""


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
        # A hash of hashes: files are hashed in blocks, and borders between talks count.
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
    spans = read_segments(segmentation)
    problems: list[str] = []
    notes = list(order_notes(spans))
    talks: list[Talk] = []
    file_names: dict[str, str] = {}
    files = _recordings(root)
    # A talk that is listed in two places has two groups, which are refused below.
    for name, group in groupby(spans, key=lambda span: span.wav):
        end_s = max(span.end_s for span in group)
        talk = Talk(root / "wav" / _file_name(name), end_s)
        try:
            if audio:
                talk = _talk(find_wav(root, name, files), name, end_s, work, notes)
        except (DevSetError, AudioError) as error:
            problems.append(str(error))
        talks.append(talk)
        file_names[name] = talk.wav.name
    for name, count in Counter(talk.name for talk in talks).items():
        if count > 1:
            problems.append(
                f"{SEGMENTATION}: {name} has {count} groups of segments, but scorers match talks "
                f"by file stem: list the segments of each talk together, and use different stems"
            )
    references = {target: root / "ref" / f"{target}.txt" for target in targets}
    transcript_path = root / "ref" / f"{source}.txt"
    transcript = transcript_path if transcript_path.is_file() else None
    # Each file is checked once, also if the spoken language is one of the targets.
    texts = dict.fromkeys(references.values())
    if transcript is not None:
        texts[transcript] = None
    problems.extend(reference_problems(texts, spans, notes))
    notes += _context_notes(root / CONTEXTS, talks)
    if problems:
        raise DevSetError(f"{root} cannot be evaluated\n  " + "\n  ".join(problems))
    segments = tuple(replace(span, wav=file_names[span.wav]) for span in spans)
    devset = DevSet(
        segmentation=segmentation,
        talks=tuple(talks),
        references=references,
        segments=segments,
        transcript=transcript,
        notes=tuple(notes),
    )
    return _adapted(devset, file_names, work)


def _recordings(root: Path) -> dict[str, Path]:
    """Return the files in a dev set and its ``FOLDERS``, by name in Unicode form NFC."""
    subfolders = [root / name for name in FOLDERS]
    files: dict[str, Path] = {}
    # The first subfolder comes last, because later files replace earlier ones.
    for folder in (root, *reversed(subfolders)):
        if folder.is_dir():
            for path in folder.iterdir():
                files[normalize("NFC", path.name)] = path
    return files


def _file_name(name: str) -> str:
    """Return the file name of a recording that need not exist; the default suffix is ``.wav``."""
    suffix = Path(name).suffix[1:]
    # Names such as 2022.acl-long.367 contain dots, but have no suffix.
    if suffix.isalnum() and not suffix.isdigit():
        return Path(name).name
    return f"{Path(name).name}.wav"


def _context_notes(folder: Path, talks: Sequence[Talk]) -> Iterator[str]:
    """Yield notes on talks without a context, and on contexts without a talk."""
    if not folder.is_dir():
        return
    contexts = {normalize("NFC", path.stem) for path in folder.glob("*.txt")}
    talk_names = {normalize("NFC", talk.name) for talk in talks}
    for name in sorted(talk_names ^ contexts):
        lacking = "does not exist" if name in talk_names else "belongs to no talk"
        yield f"{folder / name}.txt {lacking}"


def _adapted(devset: DevSet, file_names: Mapping[str, str], work: Path | None) -> DevSet:
    """Put corrected copies of files that scorers misread into ``work``, or reject such files.

    ``file_names`` maps the names of recordings in the segmentation to the names of their files.
    """
    references = devset.references
    # The scorers take the mark for a character of the first word, which lowers BLEU silently.
    misread = [path for path in references.values() if path.read_bytes()[:3] == BOM_UTF8]
    if any(Path(name).stem != Path(file).stem for name, file in file_names.items()):
        misread.append(devset.segmentation)
    if not misread or not references:  # without references, nothing is scored
        return devset
    problem = (
        f"{', '.join(map(str, misread))}: scorers misread byte order marks and names that differ "
        f"from the file names"
    )
    if work is None:
        raise DevSetError(f"{problem}; remove the marks and correct the names")
    folder = work / "devset"
    for original in (devset.segmentation, *references.values()):
        if original.resolve().parent == folder.resolve():
            raise DevSetError(
                f"{problem}; corrected copies would replace the files: choose another --output"
            )
    folder.mkdir(parents=True, exist_ok=True)
    segments = [
        {"wav": span.wav, "offset": span.offset_s, "duration": span.duration_s}
        for span in devset.segments
    ]
    segmentation = folder / SEGMENTATION
    segmentation.write_text(yaml.safe_dump(segments, allow_unicode=True), encoding="utf-8")
    copies: dict[str, Path] = {}
    for target, path in references.items():
        copies[target] = folder / path.name
        copies[target].write_text(read_text(path), encoding="utf-8")
    return replace(
        devset,
        segmentation=segmentation,
        references=copies,
        notes=(*devset.notes, f"{problem}; corrected copies are in {folder}"),
    )


def _talk(wav: Path, name: str, end_s: float, work: Path | None, notes: list[str]) -> Talk:
    # A recorder that was killed leaves a header that is too short, and Simulstream stops there.
    recorded = wav
    rest_s = undeclared_seconds(recorded)
    try:
        seconds = wav_seconds(wav)
    except DevSetError:
        if work is None:
            raise
        wav, note = converted(wav, work / "audio")
        seconds = wav_seconds(wav)
        notes.append(note)
    if end_s > seconds + _TOLERANCE_S:
        more = f"; {undeclared(rest_s)}" if rest_s else ""
        raise DevSetError(
            f"{SEGMENTATION}: a segment of {name} ends at {end_s:.2f} s, "
            f"but {wav} is {seconds:.2f} s long{more}"
        )
    if rest_s:
        notes.append(f"{recorded.name}: {undeclared(rest_s)}")
    return Talk(wav.resolve(), seconds)


def find_wav(root: Path, name: str, files: Mapping[str, Path]) -> Path:
    """Find the recording ``name`` of a segmentation, in any file format.

    ``files`` maps file names in Unicode form NFC to paths.

    Raises:
        DevSetError: there is no such recording.
    """
    base = Path(name).name
    # A name without a suffix may contain dots, and macOS decomposes accented characters.
    candidates = [base]
    for stem in (base, Path(base).stem):
        candidates += [stem + suffix for suffix in SUFFIXES]
    for candidate in candidates:
        path = files.get(normalize("NFC", candidate))
        if path is not None:
            return path
    if (root / name).is_file():
        return root / name
    raise DevSetError(f"{base} is not in {root} or its subfolders {', '.join(FOLDERS)}")


def wav_seconds(path: Path) -> float:
    """Return the length of a 16 kHz mono 16-bit WAV file, which Simulstream chunks correctly.

    Raises:
        DevSetError: the file has another format or contains no audio.
    """
    fix = (
        f"convert the whole file: ffmpeg -i {path} -ar {SAMPLE_RATE} -ac 1 -sample_fmt s16 NEW.wav"
    )
    try:
        info = soundfile.info(str(path))
    except soundfile.LibsndfileError as error:
        raise DevSetError(f"{path} is not a WAV file ({error}); {fix}") from None
    actual = f"{info.format}, {info.subtype}, {info.samplerate} Hz, {info.channels} channel(s)"
    expected = f"WAV, PCM_16, {SAMPLE_RATE} Hz, 1 channel(s)"
    if actual != expected:
        raise DevSetError(f"{path} is {actual}; expected {expected}; {fix}")
    if info.frames == 0:
        raise DevSetError(f"{path} contains no audio")
    return float(info.frames / info.samplerate)
