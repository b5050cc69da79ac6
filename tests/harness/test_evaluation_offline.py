"""The off-line cascade: whole recordings, whole sentences, the same segments."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alignatt_agent.evaluation.agents import choose_agent
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.offline import pieces, run
from alignatt_agent.nouns import SAMPLE_RATE
from tests.harness import fakes, logs


def test_pieces_end_where_it_is_quiet(tmp_path):
    chance = np.random.default_rng(1)
    audio = chance.normal(0, 0.1, 25 * SAMPLE_RATE).astype(np.float32)
    for second in (7.0, 13.5, 19.0):
        begin = int(second * SAMPLE_RATE)
        audio[begin : begin + SAMPLE_RATE // 2] = 0
    fakes.write_talk(tmp_path / "a.wav", audio)
    found = list(pieces(tmp_path / "a.wav", 9.0))
    assert sum(piece.size for piece in found) == audio.size
    assert max(piece.size for piece in found) <= 9 * SAMPLE_RATE
    ends = np.cumsum([piece.size for piece in found]) / SAMPLE_RATE
    for end, second in zip(ends, (7.25, 13.75, 19.25), strict=False):
        assert end == pytest.approx(second, abs=0.15)
    whole = np.concatenate(found)
    assert np.abs(whole - np.round(audio * 32768) / 32768).max() < 1e-4


def test_a_short_recording_is_one_piece(tmp_path):
    fakes.write_talk(tmp_path / "a.wav", fakes.talk(3))
    (piece,) = pieces(tmp_path / "a.wav", 30.0)
    assert piece.size == fakes.talk(3).size


def test_scores_on_the_segments_of_the_dev_set(tmp_path):
    root = fakes.write_devset(tmp_path / "devset")
    (root / "ref" / "en.txt").write_text(logs.transcript())
    # The fake model cannot go on after half a character, so its drafts are whole sentences.
    choice = choose_agent(str(fakes.write_config(tmp_path, max_draft_tokens=256)), None, {})
    devset = load_devset(root, ["de", "zh"])
    engines = fakes.FakeEngines()
    rows = run(choice, engines, devset, ["de", "zh"], tmp_path / "out", 30.0)
    for target in ("de", "zh"):
        assert rows[target]["bleu"] > 99
        assert rows[target]["wer"] == 0
        written = json.loads((tmp_path / "out" / target / "offline.json").read_text())
        assert written["signature"]["latency"] == "off-line"
    assert len((tmp_path / "out" / "transcript.txt").read_text().splitlines()) == 2
    assert "Wort12" in (tmp_path / "out" / "de" / "hypothesis.txt").read_text()
