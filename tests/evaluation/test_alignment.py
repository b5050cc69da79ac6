"""The compact alignment is OmniSTEval's, tie for tie, in a fraction of the memory."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from omnisteval.alignment import Word

from alignatt_agent.evaluation.compact_alignment import align_compactly
from alignatt_agent.evaluation.omnisteval_large import original
from tests.evaluation import logs
from tests.fakes import agent as fakes

WORDS = [
    "der",
    "die",
    "das",
    "rad",
    ".",
    ",",
    "(",
    "haus",
    "häuser",
    "字",
    "。",
    "new-york",
    "ß",
    "-",
]


@pytest.mark.parametrize("char_level", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_equal_to_the_original(seed, char_level):
    chance = random.Random(seed)
    one, two = (
        [Word(chance.choice(WORDS)) for _ in range(chance.randint(0, 40))] for _ in range(2)
    )
    ours = align_compactly(one, two, char_level)
    theirs = original(one, two, char_level)
    for a, b in zip(ours, theirs, strict=True):
        assert [id(word) for word in a] == [id(word) for word in b]


def test_more_letters_than_bits():
    texts = [chr(0x4E00 + k) + chr(0x4E00 + 7 * k % 300) for k in range(300)]
    one, two = [Word(text) for text in texts], [Word(text[::-1] + "x") for text in texts[::2]]
    ours = align_compactly(one, two, False)
    theirs = original(one, two, False)
    assert [id(word) for word in ours[1]] == [id(word) for word in theirs[1]]


def test_the_whole_command_prints_the_same(tmp_path, monkeypatch):
    devset = fakes.write_devset(tmp_path / "devset", (90, 60))
    path = logs.write(tmp_path / "log.jsonl", logs.lines((90, 60)))
    arguments = [
        *("longform", "--speech_segmentation", str(devset / "audio-segments.yaml")),
        *("--ref_sentences_file", str(devset / "ref" / "de.txt"), "--hypothesis_file", str(path)),
        *("--hypothesis_format", "simulstream", "--word_level", "--lang", "de"),
        *("--simulstream_config_file", str(tmp_path / "agent.yaml")),
    ]
    code = (
        "import sys; from alignatt_agent.evaluation import omnisteval_large; "
        "omnisteval_large.LARGE = int(sys.argv.pop(1)); omnisteval_large.main()"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code, large, *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for large in ("0", "1000000000")
    ]
    assert printed[0] == printed[1]
    assert "LongYAAL (CU)" in printed[0]
