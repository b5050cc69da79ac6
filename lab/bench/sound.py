"""Speech, and what comes between: silence, hiss, noise, music, and speech that is too loud."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

RATE = 16_000
SPEECH = ("speech", "clipped")
QUIET = ("silence", "hiss")
KINDS = (*SPEECH, *QUIET, "noise", "music")

TALKS = Path("micro_models/devset/wav")

Samples = npt.NDArray[np.int16]
Part = tuple[str, Samples]


def recordings(folder: Path) -> list[Samples]:
    """Return the recordings of a folder, 16 kHz mono."""
    return [soundfile.read(path, dtype="int16")[0] for path in sorted(folder.glob("*.wav"))]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add where the sound comes from and into which language it goes."""
    add = parser.add_argument
    text = "recordings that take turns, 16 kHz mono; default the embedded dev set"
    add("--talks", type=Path, default=TALKS, metavar="FOLDER", help=text)
    add("--target", default="de", metavar="LANGUAGE", help="default %(default)s")


def programme(
    talks: Sequence[Samples], seconds: float, kinds: Sequence[str] = KINDS
) -> Iterator[Part]:
    """Yield so many seconds of sound in parts of one kind each; the same at every call."""
    rng, left = np.random.default_rng(0), round(seconds * RATE)
    for talk in cycle(talks):
        for kind, samples in _cycle(talk, rng):
            if kind in kinds:
                yield kind, samples[:left]
                left -= samples.size
            if left <= 0:
                return


def _cycle(talk: Samples, rng: np.random.Generator) -> list[Part]:
    loud = np.clip(talk[: 20 * RATE].astype(np.int32) * 10, -32768, 32767)
    return [
        ("speech", talk),
        ("silence", np.zeros(15 * RATE, np.int16)),
        ("music", _music(rng, 12)),
        ("hiss", _white(rng, 8, -66)),
        ("clipped", loud.astype(np.int16)),
        ("silence", np.zeros(5 * RATE, np.int16)),
        ("noise", _white(rng, 10, -30)),
        ("hiss", _white(rng, 7, -66)),
    ]


def _white(rng: np.random.Generator, seconds: int, decibels: float) -> Samples:
    level = 32768 * 10 ** (decibels / 20)
    return np.round(rng.normal(0, level, seconds * RATE)).astype(np.int16)


def _music(rng: np.random.Generator, seconds: int) -> Samples:
    """Return chords of plucked strings, two a second."""
    beat = np.arange(RATE // 2) / RATE
    chords = []
    for _ in range(2 * seconds):
        notes = 220 * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11, 12], 3, replace=False) / 12)
        waves = [np.sin(2 * np.pi * k * note * beat) / k for note in notes for k in (1, 2, 3, 4)]
        chords.append(np.sum(waves, axis=0) * np.exp(-3 * beat))
    whole = np.concatenate(chords)
    return np.round(whole * (0.3 * 32767 / np.abs(whole).max())).astype(np.int16)
