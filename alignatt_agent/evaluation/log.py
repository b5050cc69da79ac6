"""Read logs of this and other systems, and collect all malformed lines.

Simulstream's log starts with one line that contains the loading time. For each recording, it then
contains a line with the WAV file, a line for each chunk, and a line for the end of the stream::

    {"model_loading_time": 23.4}
    {"id": 0, "metadata": {"wav_name": "/data/talk-a.wav"}}
    {"id": 0, "total_audio_processed": 0.85, "computation_time": 0.1,
     "generated_tokens": ["Sie"], "deleted_tokens": []}

OmniSTEval's JSONL (SimulEval's instances) contains one line per recording::

    {"source": "talk-a.wav", "prediction": "Sie ...", "delays": [850.0, ...], "elapsed": [...]}
"""

import json
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from alignatt_agent.config.errors import explain
from alignatt_agent.types import AlignAttError

Format = Literal["simulstream", "jsonl"]

CLOCK_S = 0.0005
"""Tolerance of half a millisecond: positions are floating-point sums of chunk lengths."""

_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class LogError(AlignAttError, ValueError):
    """A log cannot be read or scored; the message lists every problem."""


class LoggedChunk(BaseModel, strict=True, frozen=True):
    """One chunk of a stream in Simulstream's log; ``audio_s`` is the length of the audio so far."""

    audio_s: _Seconds = Field(alias="total_audio_processed")
    computation_s: _Seconds = Field(alias="computation_time")
    tokens: list[str] = Field(alias="generated_tokens")
    deleted: list[str] = Field(alias="deleted_tokens")
    line: int


_CHUNK_KEYS = (
    "id",
    "total_audio_processed",
    "computation_time",
    "generated_tokens",
    "deleted_tokens",
)


@dataclass(slots=True)
class TalkLog:
    """One recording in a log, with its ``chunks`` or, in a JSONL log, its ``instance``.

    Scorers match recordings by ``name``, the file stem.
    """

    name: str
    line: int = 0
    chunks: list[LoggedChunk] = field(default_factory=list)
    instance: dict[str, Any] | None = None

    @property
    def audio_s(self) -> float:
        """Length of the processed audio, in seconds."""
        return max((chunk.audio_s for chunk in self.chunks), default=0.0)

    @property
    def computation_s(self) -> float:
        """Total computation time, in seconds."""
        return sum(chunk.computation_s for chunk in self.chunks)

    @property
    def tokens(self) -> list[str]:
        """All emitted units."""
        tokens: list[str] = []
        for chunk in self.chunks:
            tokens += chunk.tokens
        return tokens

    @property
    def silent(self) -> bool:
        """Whether nothing was emitted, or all output was deleted."""
        if self.instance is not None:
            return not self.instance["prediction"].strip()
        # Units that were deleted later are no output.
        remaining = 0
        for chunk in self.chunks:
            remaining += len(chunk.tokens) - len(chunk.deleted)
        return remaining == 0 or not any(token.strip() for token in self.tokens)


@dataclass(slots=True)
class Log:
    """A log with its malformed lines, which ``check_log`` reports.

    ``loadings`` contains the numbers of the lines that report the loading of models, one per run.
    """

    path: Path
    format: Format = "simulstream"
    loadings: list[int] = field(default_factory=list)
    talks: list[TalkLog] = field(default_factory=list)
    malformed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def audio_s(self) -> float:
        """Length of the processed audio of all talks, in seconds."""
        return sum(talk.audio_s for talk in self.talks)

    @property
    def computation_s(self) -> float:
        """Total computation time of all talks, in seconds."""
        return sum(talk.computation_s for talk in self.talks)


def parse_log(path: Path) -> Log:
    """Read a log in either format; malformed lines are collected and raise no error.

    Raises:
        LogError: the file cannot be read.
    """
    log = Log(path)
    streams: dict[str, TalkLog] = {}
    try:
        # Bytes are split only at line feeds, because tokens may contain other line separators.
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from None
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            # json.loads would accept a byte order mark and UTF-16, which the scorers reject.
            line = json.loads(text.decode("utf-8"))
            if not isinstance(line, dict):
                raise ValueError(f"expected an object, got {type(line).__name__}")
            _add_line(log, streams, number, line)
        except ValidationError as error:
            problems = [explain(LoggedChunk, dict(detail)) for detail in error.errors()]
            log.malformed.append((number, "; ".join(problems)))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            reason = str(error)
            if text.startswith(BOM_UTF8):
                reason = "it begins with a byte order mark; remove the mark"
            log.malformed.append((number, f"the line is not JSON ({reason})"))
        except ValueError as error:
            log.malformed.append((number, str(error)))
    return log


def _add_line(log: Log, streams: dict[str, TalkLog], number: int, line: dict[str, Any]) -> None:
    """Add a line to ``log``; ``streams`` maps the ids of Simulstream's log to their recordings."""
    is_instance = "source" in line and "prediction" in line
    # The first readable line determines the format.
    if is_instance and not (log.talks or log.loadings):
        log.format = "jsonl"
    if log.format == "jsonl":
        log.talks.append(_instance(number, line))
    elif "model_loading_time" in line:
        log.loadings.append(number)
    elif "metadata" in line:
        match line["metadata"]:
            case {"wav_name": str(name)} if name:
                talk = TalkLog(Path(name).stem, number)
                streams[str(line.get("id"))] = talk
                log.talks.append(talk)
            case _:
                raise ValueError("metadata lacks wav_name")
    else:
        chunk = _chunk(number, line)
        # A server's log mixes the streams of its clients, so only the id tells them apart.
        stream = streams.get(str(line["id"]))
        if stream is None:
            raise ValueError(f"no earlier line names the recording of stream {line['id']}")
        stream.chunks.append(chunk)


def _instance(number: int, line: dict[str, Any]) -> TalkLog:
    source = line.get("source")
    # SimulEval writes a list: the path of the recording and its properties.
    if isinstance(source, list) and source:
        source = source[0]
    if not isinstance(source, str) or not isinstance(line.get("prediction"), str):
        raise ValueError("expected the keys source and prediction")
    return TalkLog(Path(source).stem, number, instance=line)


def _chunk(number: int, line: dict[str, Any]) -> LoggedChunk:
    missing = [key for key in _CHUNK_KEYS if key not in line]
    if len(missing) == len(_CHUNK_KEYS):
        raise ValueError(
            f"found the keys {sorted(line)}; expected the keys of Simulstream's log (metadata, "
            f"{', '.join(_CHUNK_KEYS)}) or OmniSTEval's JSONL (source, prediction, delays, elapsed)"
        )
    if missing:
        raise ValueError(f"the line lacks {', '.join(missing)}")
    return LoggedChunk.model_validate(line | {"line": number})
