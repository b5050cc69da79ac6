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

_JSONL_KEYS = ("source", "prediction")


class LogError(AlignAttError, ValueError):
    """A log cannot be read or scored; the message lists every problem."""


class LoggedChunk(BaseModel, strict=True, frozen=True):
    """One chunk of a stream in Simulstream's log; ``audio_s`` is the length of the audio so far."""

    audio_s: _Seconds = Field(alias="total_audio_processed")
    computation_s: _Seconds = Field(alias="computation_time")
    tokens: list[str] = Field(alias="generated_tokens")
    deleted: list[str] = Field(alias="deleted_tokens")
    line: int


_CHUNK_KEYS = ("id", *(str(key.alias) for key in LoggedChunk.model_fields.values() if key.alias))


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
        return [token for chunk in self.chunks for token in chunk.tokens]

    @property
    def silent(self) -> bool:
        """Whether nothing was emitted, or all output was deleted."""
        if self.instance is not None:
            return not self.instance["prediction"].strip()
        kept = sum(len(chunk.tokens) - len(chunk.deleted) for chunk in self.chunks)
        return not kept or not any(token.strip() for token in self.tokens)


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


def parse_log(path: Path) -> Log:
    """Read a log in either format; malformed lines are collected and raise no error."""
    log, opened = Log(path), dict[str, TalkLog]()
    try:
        # Bytes are split only at line feeds, because tokens may contain other line separators.
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from None
    for number, text in enumerate(lines, 1):
        try:
            if text.strip():
                # json.loads would accept a byte order mark and UTF-16, which the scorers reject.
                _read_line(log, opened, number, json.loads(text.decode("utf-8")))
        except ValidationError as error:
            found = [explain(LoggedChunk, dict(item)) for item in error.errors()]
            log.malformed.append((number, "; ".join(found)))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            reason = str(error)
            if text.startswith(BOM_UTF8):
                reason = "it begins with a byte order mark; remove the mark"
            log.malformed.append((number, f"the line is not JSON ({reason})"))
        except ValueError as error:
            log.malformed.append((number, str(error)))
    return log


def _read_line(log: Log, opened: dict[str, TalkLog], number: int, line: Any) -> None:
    if not isinstance(line, dict):
        raise ValueError(f"expected an object, got {type(line).__name__}")
    if all(key in line for key in _JSONL_KEYS) and not (log.talks or log.loadings):
        log.format = "jsonl"
    if log.format == "jsonl":
        source = line.get("source")
        source = source[0] if isinstance(source, list) and source else source
        if not isinstance(source, str) or not isinstance(line.get("prediction"), str):
            raise ValueError("expected the keys source and prediction")
        log.talks.append(TalkLog(Path(source).stem, number, instance=line))
    elif "model_loading_time" in line:
        log.loadings.append(number)
    elif "metadata" in line:
        match line["metadata"]:
            case {"wav_name": str(name)} if name:
                opened[str(line.get("id"))] = talk = TalkLog(Path(name).stem, number)
                log.talks.append(talk)
            case _:
                raise ValueError("metadata lacks wav_name")
    elif not any(key in line for key in _CHUNK_KEYS):
        raise ValueError(
            f"found the keys {sorted(line)}; expected the keys of Simulstream's log (metadata, "
            f"{', '.join(_CHUNK_KEYS)}) or OmniSTEval's JSONL ({', '.join(_JSONL_KEYS)}, delays, "
            f"elapsed)"
        )
    elif missing := [key for key in _CHUNK_KEYS if key not in line]:
        raise ValueError(f"the line lacks {', '.join(missing)}")
    else:
        chunk = LoggedChunk.model_validate(line | {"line": number})
        if (named := opened.get(str(line["id"]))) is None:
            raise ValueError(f"no earlier line names the recording of stream {line['id']}")
        named.chunks.append(chunk)
