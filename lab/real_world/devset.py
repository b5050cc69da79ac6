"""Dev sets of handbook sentences: talks by synthetic voices with pauses, noise and echo."""

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
import yaml

from alignatt_agent.types import SAMPLE_RATE, FloatArray
from lab.real_world.handbook import SPOKEN, TALK, Sentence
from lab.real_world.models import ARTIFACTS

VOICES = ("slt", "rms", "awb")
HALL = ("reverb", "40", "50", "70", "0")  # an effect of sox; the last value keeps one channel


def write(folder: Path, sentences: Sequence[Sentence], seed: int) -> None:
    """Write a dev set; ``audio-segments.yaml`` is written last and marks it as complete."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("ref", "wav"):
        (folder / part).mkdir(parents=True)
    listing: list[dict[str, object]] = []
    for number, begin in enumerate(range(0, len(sentences), TALK)):
        voice = VOICES[number % 3]
        in_hall = number % 3 == (2 - number // 3) % 3  # every third talk, each voice in turn
        audio, spans = speak(sentences[begin : begin + TALK], voice, in_hall, seed + number)
        name = f"talk-{number + 1:02}.wav"
        soundfile.write(folder / "wav" / name, audio, SAMPLE_RATE, subtype="PCM_16")
        for offset, duration in spans:
            segment = {
                "wav": name,
                "offset": round(offset, 3),
                "duration": round(duration, 3),
                "speaker_id": f"{voice}, hall" if in_hall else voice,
            }
            listing.append(segment)
    _write_references(folder / "ref", sentences)
    page_names = dict.fromkeys(sentence.page for sentence in sentences)
    license_text = ARTIFACTS["about"].format(voices=", ".join(VOICES), pages=", ".join(page_names))
    (folder / "LICENSE.txt").write_text(license_text)
    (folder / "audio-segments.yaml").write_text(yaml.safe_dump(listing, sort_keys=False))


def _write_references(folder: Path, sentences: Sequence[Sentence]) -> None:
    """Write the English text and its translations, one sentence a line."""
    texts = {"en": [sentence.source for sentence in sentences]}
    for code in SPOKEN:
        texts[code] = [sentence.targets[code] for sentence in sentences]
    for code, lines in texts.items():
        (folder / f"{code}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def speak(
    talk: Sequence[Sentence], voice: str, in_hall: bool, seed: int
) -> tuple[FloatArray, list[tuple[float, float]]]:
    """Return the audio of a talk, and offset and duration of its sentences in seconds."""
    # One generator draws pauses and loudness of the noise, so another order of the draws would
    # give another talk for the same seed.
    rng = random.Random(seed)
    pieces: list[FloatArray] = []
    spans: list[tuple[float, float]] = []
    position = 0  # samples
    previous = talk[0]
    with TemporaryDirectory() as work:
        dry = Path(work, "dry.wav")
        for sentence in talk:
            new_paragraph = _place(sentence) != _place(previous)
            pause = int(SAMPLE_RATE * _pause_s(rng, new_paragraph))
            subprocess.run(["flite", "-voice", voice, "-t", sentence.source, "-o", dry], check=True)
            audio, _ = soundfile.read(dry, dtype="float32")  # the three voices have 16 kHz
            pieces += [np.zeros(pause, np.float32), audio]
            spans.append(((position + pause) / SAMPLE_RATE, len(audio) / SAMPLE_RATE))
            position += pause + len(audio)
            previous = sentence
        pieces.append(np.zeros(SAMPLE_RATE, np.float32))
        whole = np.concatenate(pieces)
        if in_hall:
            wet = Path(work, "wet.wav")
            # Half as loud, because the echo adds to the voice.
            soundfile.write(dry, whole / 2, SAMPLE_RATE)
            # Without -D, sox adds random dither.
            subprocess.run(["sox", "-D", dry, wet, *HALL], check=True)
            whole, _ = soundfile.read(wet, dtype="float32", frames=len(whole))
    noise = np.random.default_rng(seed).standard_normal(len(whole), np.float32)
    loudness = rng.uniform(0.001, 0.002)
    return np.clip(whole + loudness * noise, -1, 1), spans


def _place(sentence: Sentence) -> tuple[str, int]:
    return sentence.page, sentence.paragraph


def _pause_s(rng: random.Random, new_paragraph: bool) -> float:
    """Draw the pause before a sentence; half of the paragraphs begin after a long one."""
    if new_paragraph and rng.random() < 0.5:
        return rng.uniform(1, 2.5)
    return rng.uniform(0.2, 0.7)
