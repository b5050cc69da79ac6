"""The micro world is hard enough, its gold alignments hold, and its dev set is held out."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest
import soundfile
import yaml

from alignatt_agent.types import Word
from micro_world.corpus import TARGETS, is_held_out, reorders, sentences
from micro_world.speech_data import cut, positions

ROOT = Path(__file__).resolve().parents[2]
DEVSET = ROOT / "micro_models" / "devset"


@pytest.fixture(scope="module")
def pairs():
    return list(islice(sentences(1), 3000))


def test_vocabulary_and_reordering_are_rich_enough(pairs):
    words = {re.sub(r"\W", "", w).lower() for pair in pairs for w in pair.words}
    assert len(words) >= 300
    reordered = sum(any(reorders(pair, code) for code in TARGETS) for pair in pairs)
    assert reordered >= len(pairs) / 3
    for code in ("de", "zh"):
        assert sum(reorders(pair, code) for pair in pairs) >= len(pairs) / 3


def test_every_target_word_is_aligned_inside_the_sentence(pairs):
    for pair in pairs:
        for side in pair.targets.values():
            assert len(side.pieces) == len(side.align)
            assert all(align for align in side.align)
            assert all(0 <= i < len(pair.words) for align in side.align for i in align)


def test_known_sentence_has_the_expected_translations_and_alignment():
    wanted = "She thinks that the doctors have copied the model."
    pair = next(p for p in islice(sentences(1), 50) if p.text == wanted)
    assert pair.targets["de"].text == "Sie denkt, dass die Ärzte das Modell kopiert haben."
    assert pair.targets["it"].text == "Lei pensa che i medici hanno copiato il modello."
    assert pair.targets["zh"].text == "她认为医生复制了模型。"
    german = dict(zip(pair.targets["de"].pieces, pair.targets["de"].align, strict=True))
    assert german[" kopiert"] == (6,)
    assert german[" das"] == (7, 8)


def test_same_seed_same_sentences_and_held_out_ones_never_occur_in_training(pairs):
    again = list(islice(sentences(1), 200))
    assert [p.text for p in again] == [p.text for p in pairs[:200]]
    assert not any(is_held_out(p.text) for p in pairs)
    assert all(is_held_out(p.text) for p in islice(sentences(1, held_out=True), 100))


def test_transcript_of_cut_audio_ends_where_the_audio_does():
    words = [Word("We", 0.0, 0.2), Word("see", 0.2, 0.5), Word("it.", 0.5, 0.9)]
    assert [w.text for w in cut(words, 0.55)] == ["We", "see"]
    assert [w.text for w in cut(words, 0.85)] == ["We", "see", "it"]
    assert [w.text for w in cut(words, 1.2)] == ["We", "see", "it."]


def test_encoder_positions():
    assert [positions(n) for n in (0, 1, 8, 9, 99, 100, 108)] == [0, 1, 1, 2, 13, 13, 14]


def test_dev_set_is_held_out_and_has_the_layout_of_mcif():
    english = (DEVSET / "ref" / "en.txt").read_text().splitlines()
    assert all(is_held_out(line) for line in english)
    listing = yaml.safe_load((DEVSET / "audio-segments.yaml").read_text())
    for code in TARGETS:
        assert len((DEVSET / "ref" / f"{code}.txt").read_text().splitlines()) == len(listing)
    wavs = {entry["wav"] for entry in listing}
    assert len(wavs) >= 4
    assert len({entry["speaker_id"] for entry in listing}) >= 4
    for wav in wavs:
        info = soundfile.info(DEVSET / "wav" / wav)
        assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
        assert 60 <= info.duration <= 120
        gold = json.loads((DEVSET / "gold" / wav).with_suffix(".json").read_text())
        ends = [end for _, _, end in gold]
        assert ends == sorted(ends)
        assert ends[-1] <= info.duration


def test_embedded_files_stay_small():
    files = [f for f in (ROOT / "micro_models").rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) < 40e6
