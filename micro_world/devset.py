"""The embedded dev set: unsegmented talks of held-out sentences in the layout of MCIF's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import yaml

from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from micro_world import training
from micro_world.corpus import TARGETS, Pair, sentences
from micro_world.speech import Voice, speak

TALKS = {
    "talk-a": Voice("en-us", 145, 45),
    "talk-b": Voice("en-us+f2", 155, 60),
    "talk-c": Voice("en-us+m3", 165, 40),
    "talk-d": Voice("en-us+f4", 175, 52),
}
SECONDS = 72.0
NOISE = 6e-4
"""Standard deviation of the background noise, full scale being 1."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A spoken talk: samples, its sentences with their begin and end in seconds, gold words."""

    audio: FloatArray
    segments: tuple[tuple[Pair, float, float], ...]
    words: tuple[Word, ...]


def talk(voice: Voice, seed: int, seconds: float) -> Talk:
    """Speak held-out sentences one after the other until ``seconds`` have passed."""
    rng = random.Random(seed)
    pieces: list[FloatArray] = [np.zeros(int(rng.uniform(0.2, 0.6) * SAMPLE_RATE), np.float32)]
    now = len(pieces[0]) / SAMPLE_RATE
    segments: list[tuple[Pair, float, float]] = []
    words: list[Word] = []
    for pair in sentences(seed, held_out=True):
        spoken = speak(pair.words, voice, rng)
        words += [Word(w.text, w.start + now, w.end + now) for w in spoken.words]
        end = now + len(spoken.audio) / SAMPLE_RATE
        segments.append((pair, now, end))
        gap = np.zeros(int(rng.uniform(0.4, 0.9) * SAMPLE_RATE), np.float32)
        pieces += [spoken.audio, gap]
        now = end + len(gap) / SAMPLE_RATE
        if now >= seconds:
            break
    audio = np.concatenate(pieces)
    noise = np.random.default_rng(seed).standard_normal(len(audio)).astype(np.float32)
    return Talk(audio + np.float32(NOISE) * noise, tuple(segments), tuple(words))


def write(folder: Path, *, seed: int = 1000, seconds: float = SECONDS) -> None:
    """Write WAVs, ``audio-segments.yaml``, ``ref/*.txt`` and gold word times to ``folder``."""
    (folder / "ref").mkdir(parents=True, exist_ok=True)
    (folder / "wav").mkdir(exist_ok=True)
    listing: list[dict[str, object]] = []
    lines: dict[str, list[str]] = {code: [] for code in ("en", *TARGETS)}
    for number, (name, voice) in enumerate(TALKS.items()):
        spoken = talk(voice, seed + number, seconds)
        wav = f"{name}.wav"
        soundfile.write(folder / "wav" / wav, spoken.audio, SAMPLE_RATE, subtype="PCM_16")
        for pair, begin, end in spoken.segments:
            listing.append(
                {
                    "wav": wav,
                    "offset": round(begin, 3),
                    "duration": round(end - begin, 3),
                    "speaker_id": voice.name,
                }
            )
            lines["en"].append(pair.text)
            for code in TARGETS:
                lines[code].append(pair.targets[code].text)
        training.write_json(
            folder / "gold" / f"{name}.json",
            [[w.text, round(w.start, 3), round(w.end, 3)] for w in spoken.words],
        )
    (folder / "audio-segments.yaml").write_text(yaml.safe_dump(listing, sort_keys=False))
    for code, texts in lines.items():
        (folder / "ref" / f"{code}.txt").write_text("\n".join(texts) + "\n")
