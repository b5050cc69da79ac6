"""Dev sets of the micro world: unsegmented talks of held-out sentences in the MCIF layout."""

import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
import soundfile
import yaml

from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from lab.micro_world import lexicon
from lab.micro_world.corpus import TARGETS, Pair, sentences
from lab.micro_world.lexicon import drawn_names
from lab.micro_world.speech import Synthesizer, Voice, speak
from lab.micro_world.speech_data import later, noisy, silence

VOICES = (
    Voice("en-us", 145, 45),
    Voice("en-us+f2", 155, 60),
    Voice("en-us+m3", 165, 40),
    Voice("en-us+f4", 175, 52),
)
SECONDS = 72.0
"""Duration in seconds after which a talk ends with the current sentence."""
SEED = 1000
SENTENCES = 60
"""Minimum number of sentences."""
NOISE = 6e-3
"""Standard deviation of the background noise, full scale being 1."""


class SpokenTalk(NamedTuple):
    """A spoken talk."""

    name: str
    speaker: str  # name of the voice
    audio: FloatArray
    segments: tuple[tuple[Pair, float, float], ...]  # sentences with start and end in seconds
    words: tuple[Word, ...]
    context: tuple[str, ...]  # names that occur, and other names


def talks(seed: int, least: int, linked: bool = False) -> Iterator[SpokenTalk]:
    """Yield talks until they have ``least`` sentences and every voice is used."""
    sentence_count = 0
    for number in count():
        if sentence_count >= least and number >= len(VOICES):
            return
        voice = VOICES[number % len(VOICES)]
        talk = speak_talk(f"talk-{_letters(number)}", voice, seed + number, linked=linked)
        sentence_count += len(talk.segments)
        yield talk


def speak_talk(
    name: str, voice: Voice, seed: int, seconds: float = SECONDS, linked: bool = False
) -> SpokenTalk:
    """Speak held-out sentences until ``seconds`` have passed."""
    rng, synthesizer = random.Random(seed), Synthesizer()
    lead = silence(rng.uniform(0.2, 0.6))
    pieces: list[FloatArray] = [lead]
    segments: list[tuple[Pair, float, float]] = []
    words: list[Word] = []
    now = len(lead) / SAMPLE_RATE
    for pair in _consistent(seed, rng, linked):
        utterance = speak(pair.words, voice, rng, synthesizer)
        words += later(utterance.words, now)
        end = now + len(utterance.audio) / SAMPLE_RATE
        segments.append((pair, now, end))
        gap = silence(rng.uniform(0.4, 0.9))
        pieces += [utterance.audio, gap]
        now = end + len(gap) / SAMPLE_RATE
        if now >= seconds:
            break
    audio = noisy(np.concatenate(pieces), NOISE, seed)
    context = tuple(drawn_names(rng, [word.text for word in words]))
    return SpokenTalk(name, voice.name, audio, tuple(segments), tuple(words), context)


def _consistent(seed: int, rng: random.Random, linked: bool) -> Iterator[Pair]:
    """Yield held-out sentences with one spelling per name.

    A sentence with "it" is skipped if the sentence before it is skipped.
    """
    unused_spellings: set[str] = set()
    for names in lexicon.SPELLINGS:
        chosen = rng.choice(names)
        unused_spellings.update(name.en for name in names if name != chosen)
    spoken = False
    for pair in sentences(seed, held_out=True, linked=linked):
        bare_words = {word.strip(".,") for word in pair.words}
        says_it = linked and not {"it", "It"}.isdisjoint(pair.words)
        # The previous sentence has the thing that "it" refers to.
        understandable = spoken or not says_it
        spoken = understandable and unused_spellings.isdisjoint(bare_words)
        if spoken:
            yield pair


def write(folder: Path, seed: int = SEED, least: int = SENTENCES, linked: bool = False) -> None:
    """Write WAVs, ``audio-segments.yaml``, ``ref``, ``contexts`` and gold word times to ``folder``.

    It has at least ``least`` sentences, because the last talk is complete. The first two talks
    are also written as FLAC, to ``talks`` next to the folder, for the wheel.
    """
    for part in ("ref", "wav", "contexts", "gold"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    listing: list[dict[str, object]] = []
    lines: dict[str, list[str]] = {code: [] for code in ("en", *TARGETS)}
    for talk in talks(seed, least, linked):
        _write_audio(folder, talk)
        _write_names_and_times(folder, talk)
        for pair, begin, end in talk.segments:
            entry = {
                "wav": f"{talk.name}.wav",
                "offset": round(begin, 3),
                "duration": round(end - begin, 3),
                "speaker_id": talk.speaker,
            }
            listing.append(entry)
            lines["en"].append(pair.text)
            for code in TARGETS:
                lines[code].append(pair.targets[code].text)
    (folder / "audio-segments.yaml").write_text(yaml.safe_dump(listing, sort_keys=False))
    for code, texts in lines.items():
        (folder / "ref" / f"{code}.txt").write_text("\n".join(texts) + "\n")


def _write_audio(folder: Path, talk: SpokenTalk) -> None:
    files = [folder / "wav" / f"{talk.name}.wav"]
    if talk.name in ("talk-a", "talk-b"):
        files.append(folder.parent / "talks" / f"{talk.name}.flac")
    for file in files:
        file.parent.mkdir(exist_ok=True)
        soundfile.write(file, talk.audio, SAMPLE_RATE, subtype="PCM_16")


def _write_names_and_times(folder: Path, talk: SpokenTalk) -> None:
    (folder / "contexts" / f"{talk.name}.txt").write_text("\n".join(talk.context) + "\n")
    gold = [[word.text, round(word.start, 3), round(word.end, 3)] for word in talk.words]
    text = json.dumps(gold, indent=1, ensure_ascii=False) + "\n"
    (folder / "gold" / f"{talk.name}.json").write_text(text)


def _letters(number: int) -> str:
    """Return a, b, ... z, ba, bb, ..."""
    text = ascii_lowercase[number % 26]
    if number < 26:
        return text
    return _letters(number // 26) + text
