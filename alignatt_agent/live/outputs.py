"""Outputs of a translation: running text, JSON lines, and subtitles."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from alignatt_agent.config.languages import Language
from alignatt_agent.config.whole_files import replace_text
from alignatt_agent.live.cues import Cue, Said, layout
from alignatt_agent.live.cues_from_units import said_cues, spoken_cues, too_fast
from alignatt_agent.live.output_paths import output_path
from alignatt_agent.live.subtitle_formats import srt, vtt
from alignatt_agent.text.sentence_starts import begins_sentence

FORMATS = ("txt", "srt", "vtt", "jsonl")

WRITE_S = 10.0
"""Minimum pause between two writes of subtitles, in seconds."""

WRITE_RATIO = 20
"""Minimum pause between two writes of subtitles, in multiples of a write's duration."""

APPROXIMATE = "times are approximate: each word is timed by the first hypothesis that contains it"


def build_output(
    form: str, target: Language, times: str, stem: Path | None, labelled: bool, aligned: bool = True
) -> Output:
    """Return the output for one language: a new file or, without a ``stem``, the terminal.

    If ``labelled``, lines on the terminal begin with the language code. If not ``aligned``, outputs
    mark times as approximate.
    """
    path = None
    if stem is not None:
        path = output_path(stem, target, form)
    if path is not None and form in ("srt", "vtt"):
        return Subtitles(path, target, times, aligned)
    if form == "jsonl":
        return JsonLines(path, target, aligned)
    label = ""
    if labelled and path is None:
        label = f"{target.code}: "
    return Text(path, target, label)


class _Written:
    """Output that is written to a file or the terminal immediately."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stream: TextIO = sys.stdout
        if path is not None:
            self._stream = path.open("w", encoding="utf-8")

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
        self._label = label
        self._code = target.code
        self._sentence = ""
        self._unwritten = ""

    def say(self, units: Sequence[Said]) -> None:
        """Write the next units."""
        for unit in units:
            if self._sentence and begins_sentence(self._sentence, unit.text, self._code):
                self._end_line()
            if self._sentence:
                self._unwritten += unit.text
            else:
                self._unwritten += self._label + unit.text.lstrip()
            self._sentence += unit.text
        # Lines of several languages share the terminal, so a labeled line is written as a whole.
        if not self._label:
            self._write()

    def close(self) -> str:
        """End the last line and close the file."""
        if self._sentence:
            self._end_line()
        return super().close()

    def _end_line(self) -> None:
        self._unwritten += "\n"
        self._sentence = ""
        self._write()

    def _write(self) -> None:
        # After a failed write, the stream keeps the text in its buffer, so it is not kept here.
        text = self._unwritten
        self._unwritten = ""
        print(text, end="", file=self._stream, flush=True)


def json_line(target: str, unit: Said, **more: bool) -> str:
    """Return a unit as a JSON line, with times in seconds."""
    fields: dict[str, Any] = {
        "target": target,
        "text": unit.text,
        "start": round(unit.spoken.start, 3),
        "end": round(unit.spoken.end, 3),
        "emission_time": round(unit.at, 3),
    }
    if unit.spoken.interpolated:
        fields["interpolated"] = True
    fields |= more
    return json.dumps(fields, ensure_ascii=False) + "\n"


class JsonLines(_Written):
    """JSON lines, one per unit."""

    def __init__(self, path: Path | None, target: Language, aligned: bool) -> None:
        super().__init__(path)
        self._target = target
        self._more: dict[str, bool] = {}
        if not aligned:
            self._more["approximate"] = True

    def say(self, units: Sequence[Said]) -> None:
        """Write the next units."""
        for unit in units:
            self._stream.write(json_line(self._target.code, unit, **self._more))
        self._stream.flush()


class Subtitles:
    """Cues of all units so far, written at intervals because the process may be killed."""

    def __init__(self, path: Path, target: Language, times: str, aligned: bool) -> None:
        self._path = path
        self._target = target
        self._form = layout(target)
        self._is_spoken = times == "spoken"
        self._note = ""
        # Emission times are exact, also if the words are not aligned.
        if self._is_spoken and not aligned:
            self._note = APPROXIMATE
        self._units: list[Said] = []
        self._due = time.monotonic() + WRITE_S

    def say(self, units: Sequence[Said]) -> None:
        """Add the next units."""
        self._units += units
        begin = time.monotonic()
        if begin <= self._due:
            return
        self._write()
        end = time.monotonic()
        # The cues of the whole talk are computed again, so writing takes longer and longer.
        self._due = end + max(WRITE_S, WRITE_RATIO * (end - begin))

    def close(self) -> str:
        """Write all cues and return a summary."""
        cues = self._write()
        summary = f"{self._path}: {len(cues)} cues"
        # Roll-up lines stay for several cues, so the duration of a cue is no limit for reading.
        if self._is_spoken:
            characters_per_s = self._form.speed
            # A character of an unspaced script is two columns wide.
            if not self._form.spaced:
                characters_per_s /= 2
            fast = too_fast(cues, self._form)
            summary += f", {fast} above {characters_per_s:g} characters per second"
        interpolated = sum(unit.spoken.interpolated for unit in self._units)
        if interpolated:
            summary += f"; times of {interpolated} of {len(self._units)} units are interpolated"
        if self._note:
            summary += f"; {self._note}"
        return summary

    def _write(self) -> list[Cue]:
        """Write and return all cues."""
        if self._is_spoken:
            cues = spoken_cues(self._units, self._form)
        else:
            cues = said_cues(self._units, self._form)
        if self._path.suffix == ".vtt":
            text = vtt(cues, rtl=self._target.rtl, note=self._note)
        else:
            text = srt(cues, rtl=self._target.rtl)
        replace_text(self._path, text)
        return cues


Output = Text | JsonLines | Subtitles
"""``say`` adds units of one language; ``close`` writes the rest and may return a message."""
