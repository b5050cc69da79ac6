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
        name, voice = f"talk-{number + 1:02}.wav", VOICES[number % 3]
        hall = number % 3 == (2 - number // 3) % 3  # every third talk, each voice in turn
        audio, spans = speak(sentences[begin : begin + TALK], voice, hall, seed + number)
        soundfile.write(folder / "wav" / name, audio, SAMPLE_RATE, subtype="PCM_16")
        speaker = f"{voice}, hall" if hall else voice
        listing += [
            {"wav": name, "offset": round(x, 3), "duration": round(y, 3), "speaker_id": speaker}
            for x, y in spans
        ]
    for code in ("en", *SPOKEN):
        lines = [{"en": said.source, **said.targets}[code] for said in sentences]
        (folder / "ref" / f"{code}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pages = ", ".join(dict.fromkeys(said.page for said in sentences))
    about = ARTIFACTS["about"].format(voices=", ".join(VOICES), pages=pages)
    (folder / "LICENSE.txt").write_text(about)
    (folder / "audio-segments.yaml").write_text(yaml.safe_dump(listing, sort_keys=False))


def speak(
    talk: Sequence[Sentence], voice: str, hall: bool, seed: int
) -> tuple[FloatArray, list[tuple[float, float]]]:
    """Return the audio of a talk, and offset and duration of its sentences in seconds."""
    rng, pieces, spans, now, before = random.Random(seed), [], [], 0, talk[0][:2]
    with TemporaryDirectory() as work:
        dry, wet = Path(work, "dry.wav"), Path(work, "wet.wav")
        for page, paragraph, text, _ in talk:
            apart = (page, paragraph) != before and rng.random() < 0.5
            pause = int(SAMPLE_RATE * (rng.uniform(1, 2.5) if apart else rng.uniform(0.2, 0.7)))
            subprocess.run(["flite", "-voice", voice, "-t", text, "-o", dry], check=True)
            audio, _ = soundfile.read(dry, dtype="float32")  # the three voices have 16 kHz
            pieces += [np.zeros(pause, np.float32), audio]
            spans.append(((now + pause) / SAMPLE_RATE, len(audio) / SAMPLE_RATE))
            now, before = now + pause + len(audio), (page, paragraph)
        whole = np.concatenate([*pieces, np.zeros(SAMPLE_RATE, np.float32)])
        if hall:
            soundfile.write(dry, whole / 2, SAMPLE_RATE)
            subprocess.run(["sox", "-D", dry, wet, *HALL], check=True)
            whole = soundfile.read(wet, dtype="float32", frames=len(whole))[0]
    noise = np.random.default_rng(seed).standard_normal(len(whole), np.float32)
    return np.clip(whole + rng.uniform(0.001, 0.002) * noise, -1, 1), spans
