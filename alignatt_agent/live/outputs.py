"""Outputs of a translation: running text, JSON lines, and subtitles."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from alignatt_agent.config.languages import Language
from alignatt_agent.config.whole_files import replace_text
from alignatt_agent.live import subtitles
from alignatt_agent.live.subtitles import Cue, Said
from alignatt_agent.text.sentence_starts import begins_sentence

FORMATS = ("txt", "srt", "vtt", "jsonl")
WRITE_S, RATIO = 10.0, 20
"""Minimum pause between writes of subtitles: in seconds, and in multiples of a write's duration."""
APPROXIMATE = "times are approximate: each word is timed by the first hypothesis that contains it"


def output_path(stem: Path, target: Language, form: str) -> Path:
    """Return the output path for a language."""
    return stem.with_name(f"{stem.name}.{target.code}.{form}")


def build_output(
    form: str, target: Language, times: str, stem: Path | None, labelled: bool, aligned: bool = True
) -> Output:
    """Return the output for one language: a new file or, without a ``stem``, the terminal.

    If ``labelled``, lines on the terminal begin with the language code. If not ``aligned``, outputs
    mark times as approximate.
    """
    path = output_path(stem, target, form) if stem is not None else None
    if path is not None and form in ("srt", "vtt"):
        return Subtitles(path, target, times, aligned)
    if form == "jsonl":
        return JsonLines(path, target, aligned)
    return Text(path, target, f"{target.code}: " if labelled and path is None else "")


class _Written:
    """Output that is written to a file or the terminal immediately."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stream = path.open("w", encoding="utf-8") if path is not None else sys.stdout

    def close(self) -> str:
        """Close the file and return its name."""
        if self._path is None:
            return ""
        self._stream.close()
        return str(self._path)


class Text(_Written):
    """Running text, one sentence per line; a labeled line is written when it is complete."""

    def __init__(self, path: Path | None, target: Language, label: str) -> None:
        super().__init__(path)
        self._label, self._code = label, target.code
        self._line = self._last = ""

    def say(self, units: Sequence[Said]) -> None:
        """Write the next units."""
        for unit in units:
            if self._last and begins_sentence(self._last, unit.text, self._code):
                self._end()
            self._line += unit.text if self._last else self._label + unit.text.lstrip()
            self._last += unit.text
        if not self._label:
            self._write()

    def close(self) -> str:
        """End the last line and close the file."""
        if self._last:
            self._end()
        return super().close()

    def _end(self) -> None:
        self._line += "\n"
        self._last = ""
        self._write()

    def _write(self) -> None:
        line, self._line = self._line, ""  # after a failed write, the stream keeps its buffer
        print(line, end="", file=self._stream, flush=True)


def json_line(target: str, unit: Said, **more: bool) -> str:
    """Return a unit as a JSON line, with times in seconds."""
    spoken = {"start": round(unit.spoken.start, 3), "end": round(unit.spoken.end, 3)}
    line = {"target": target, "text": unit.text, **spoken, "emission_time": round(unit.at, 3)}
    more = {"interpolated": True, **more} if unit.spoken.interpolated else more
    return json.dumps(line | more, ensure_ascii=False) + "\n"


class JsonLines(_Written):
    """JSON lines, one per unit."""

    def __init__(self, path: Path | None, target: Language, aligned: bool) -> None:
        super().__init__(path)
        self._target = target
        self._more = {} if aligned else {"approximate": True}

    def say(self, units: Sequence[Said]) -> None:
        """Write the next units."""
        for unit in units:
            self._stream.write(json_line(self._target.code, unit, **self._more))
        self._stream.flush()


class Subtitles:
    """Cues of all units so far, written at intervals because the process may be killed."""

    def __init__(self, path: Path, target: Language, times: str, aligned: bool) -> None:
        self._path = path
        # Emission times are exact.
        self._note = "" if aligned or times != "spoken" else APPROXIMATE
        self._format: Callable[[Sequence[Cue]], str] = partial(subtitles.srt, rtl=target.rtl)
        if path.suffix == ".vtt":
            self._format = partial(subtitles.vtt, rtl=target.rtl, note=self._note)
        self._cut = subtitles.spoken_cues if times == "spoken" else subtitles.said_cues
        self._form = subtitles.layout(target)
        self._units: list[Said] = []
        self._due = time.monotonic() + WRITE_S

    def say(self, units: Sequence[Said]) -> None:
        """Add the next units."""
        self._units += units
        if (begin := time.monotonic()) > self._due:
            self._write()
            end = time.monotonic()
            self._due = end + max(WRITE_S, RATIO * (end - begin))

    def close(self) -> str:
        """Write all cues and return a summary."""
        cues, form = self._write(), self._form
        pace = form.speed if form.spaced else form.speed / 2
        fast = f", {subtitles.too_fast(cues, form)} above {pace:g} characters per second"
        fast = fast if self._cut is subtitles.spoken_cues else ""  # roll-up lines are shown longer
        guessed = sum(unit.spoken.interpolated for unit in self._units)
        more = f"; times of {guessed} of {len(self._units)} units are interpolated"
        more = (more if guessed else "") + (f"; {self._note}" if self._note else "")
        return f"{self._path}: {len(cues)} cues{fast}{more}"

    def _write(self) -> list[Cue]:
        """Write and return all cues."""
        cues = self._cut(self._units, self._form)
        replace_text(self._path, self._format(cues))
        return cues


Output = Text | JsonLines | Subtitles
"""``say`` adds units of one language; ``close`` writes the rest and may return a message."""
