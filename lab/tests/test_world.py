"""The micro world is hard enough, its gold alignments hold, and its dev set is held out."""

import json
import random
import re
import zlib
from itertools import chain, islice, pairwise
from pathlib import Path

import pytest
import soundfile
import yaml

from alignatt_agent.types import Word
from lab.micro_world import devset, lexicon
from lab.micro_world.corpus import TARGETS, is_held_out, reorders, sentences
from lab.micro_world.measure import two_draws
from lab.micro_world.speech_data import cut

ROOT = Path(__file__).resolve().parents[2]
DEVSET = ROOT / "micro_models" / "devset"


@pytest.fixture(scope="module")
def pairs():
    return list(islice(sentences(1), 3000))


def test_vocabulary_and_reordering_are_rich_enough(pairs):
    words = {re.sub(r"\W", "", w).lower() for pair in pairs for w in pair.words}
    assert 750 <= len(words) <= 950
    assert words <= set(lexicon.english_forms())
    reordered = sum(any(reorders(pair, code) for code in TARGETS) for pair in pairs)
    assert reordered >= len(pairs) / 3
    for code in ("de", "zh"):
        assert sum(reorders(pair, code) for pair in pairs) >= len(pairs) / 3


def test_every_target_word_is_aligned_and_more_is_known_the_more_is_shown(pairs):
    for pair in pairs:
        for side in pair.targets.values():
            assert len(side.pieces) == len(side.align)
            assert all(align for align in side.align)
            assert all(0 <= i < len(pair.words) for align in side.align for i in align)
            known = [side.known_pieces(shown) for shown in range(len(pair.words) + 1)]
            assert known == sorted(known)
            assert (known[0], known[-1]) == (0, len(side.pieces))


def test_it_is_a_thing_of_the_sentence_before():
    linked = list(islice(sentences(1, linked=True), 600))
    genders = {"er": "m", "sie": "f", "es": "n"}, {"lui": "m", "lei": "f"}
    said = 0
    for before, pair in pairwise(linked):
        subject = pair.tree.main.subject.pronoun
        if not subject or subject.value.en != "it":
            continue
        said += 1
        clauses = [item for item in (before.tree.main, before.tree.second) if item]
        nouns = [p.noun.value for c in clauses for p in c.noun_phrases() if p.noun and not p.plural]
        (thing,) = [noun for noun in nouns if noun.kind != "person"]
        assert {form.gender for form in thing.de} == {genders[0][subject.value.de[0]]}
        assert {form.gender for form in thing.it} == {genders[1][subject.value.it[0]]}
        assert "it" in pair.text.lower().split()
        words = {code: re.findall(r"\w+", pair.targets[code].text.lower()) for code in ("de", "it")}
        assert subject.value.de[0] in words["de"]
        assert subject.value.it[0] in words["it"]
        assert "它" not in pair.targets["zh"].text
    assert 100 < said < 250


def test_the_language_is_the_one_that_the_models_were_trained_on(pairs):
    """Every word, wording and alignment: a different one needs other weights."""
    linked, rng = islice(sentences(1, linked=True), 1000), random.Random(0)
    digest = 0
    for pair in chain(pairs, linked):
        again = [pair.reworded(code, rng) for code in TARGETS]
        digest = zlib.crc32(repr((pair.words, pair.targets, again)).encode(), digest)
    assert digest == 53350761


def test_held_out_sentences_never_occur_in_training(pairs):
    assert not any(is_held_out(p.text) for p in pairs)
    assert all(is_held_out(p.text) for p in islice(sentences(1, held_out=True), 100))


@pytest.mark.parametrize("code", TARGETS)
def test_two_right_wordings_are_some_way_apart(code):
    assert 85 <= two_draws(code, 1200) <= 95


@pytest.mark.parametrize(
    ("verb", "it_s", "end", "heard"),
    [
        ("see", 0.5, 0.09, "We"),
        ("see", 0.5, 0.1, "We."),
        ("see", 0.5, 0.33, "We see"),
        ("see", 0.5, 0.35, "We see."),
        ("see", 0.5, 0.64, "We see."),
        ("see", 0.5, 0.67, "We see it"),
        ("see", 0.5, 0.95, "We see it."),
        ("tested", 0.7, 0.6, "We test."),  # its ending is heard later
        ("tested", 0.7, 0.79, "We test it"),
        ("tested", 0.7, 1.15, "We tested it."),
    ],
)
def test_transcript_of_cut_audio_has_the_errors_of_the_real_one(verb, it_s, end, heard):
    words = [Word("We", 0.0, 0.2), Word(verb, 0.2, 0.5), Word("it.", it_s, 0.9)]
    assert " ".join(w.text for w in cut(words, end)) == heard


def test_names_of_a_talk_have_the_spelling_that_is_said():
    drawn = lexicon.drawn_names(random.Random(3), ["Sara", "greets", "Peter."])
    assert set(drawn) & {"Sara", "Sarah", "Peter"} == {"Sara", "Peter"}
    assert len(drawn) == len(set(drawn))


def test_talks_spell_names_consistently():
    talk = devset.speak_talk("talk", devset.VOICES[0], 3, seconds=60.0)
    said = {w.text.strip(".,") for w in talk.words} & set(lexicon.NAMES)
    assert said <= set(talk.context)
    for pair in lexicon.SPELLINGS:
        assert len(said & {name.en for name in pair}) <= 1


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
