"""The speech side alone: word errors, latency, and how far the live tail can be trusted."""

import json
import shutil
import sys

import numpy as np
import pytest

from alignatt_agent.cli import main
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.asr import tail_report, transcript_log
from alignatt_agent.evaluation.latency import regime_of
from alignatt_agent.evaluation.score import Result, Scores
from alignatt_agent.evaluation.trace import TalkStep
from alignatt_agent.evaluation.wer import (
    TailErrors,
    matches,
    segment_errors,
    tail_errors,
)
from alignatt_agent.types import SourceView, SpeechUpdate, Word
from tests.fakes import agent as fakes

TOKENS = "generated_tokens", "deleted_tokens"


def record(audio_s, words, accessible=None, closed=(), talk="talk0"):
    shown = tuple(Word(*item) for item in words)
    count = len(shown) if accessible is None else accessible
    seconds = {"asr": 0.1, "aligner": 0.05, "draft": 0.0, "emission": 0.0}
    heard = SpeechUpdate(closed, SourceView(shown, count))
    return TalkStep(audio_s, heard, None, (), 0, 0, seconds, talk=talk)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "right"),
    [
        ("a b c", "a b c", "111"),
        ("b c", "a b c d e", "11"),  # what is around the spoken part costs nothing
        ("a x c", "a b c", "101"),
        ("a c", "a b c", "11"),  # a missing word is not an error of the words that are there
        ("x", "a b", "0"),
        ("a", "", "0"),
        ("", "a", ""),
    ],
)
def test_matches(hypothesis, reference, right):
    found = matches(hypothesis.split(), reference.split())
    assert found == [item == "1" for item in right]
    assert sum(matches(["a", "b", "b", "c"], ["a", "b", "c"])) == 3  # one of two is wrong


@pytest.mark.parametrize(
    ("code", "said", "heard", "wrong"),
    [
        ("en", "It’s “well-known”: OK_ay.", "it's well known ok ay", "it well known ok ay"),
        ("zh", "你好，世界。用 GPU 训练！", "你 好 世 界 用 GPU 训 练", "你 好 时 界 用 GPU 训 练"),
        ("ja", "今日はガラスを買う。", "今 日 は ガ ラ ス を 買 う", "今 日 は カ ラ ス を 買 う"),
        ("th", "วันนี้น้ำใส มาก", "วั น นี้ น้ำ ใ ส ม า ก", "วั น นี้ น้ะ ใ ส ม า ก"),
        ("hi", "दिल्ली में गर्मी है।", "दिल्ली में गर्मी है", "दिल्ली मैं गर्मी है"),
        ("ar", "ذَهَبَ الوَلَدُ؟", "ذَهَبَ الوَلَدُ", "ذَهَبَ الوَلَدَ"),
        ("fa", "می\u200cروم", "می\u200cروم.", "می\u200cرود"),
        ("el", "Αυτός ο ΚΌΣΜΟΣ;", "αυτός ο κόσμος", "αυτός ο νόμος"),
    ],
)
def test_a_wrong_word_or_character_is_one_error_in_any_script(code, said, heard, wrong):
    spaced = language(code).spaced
    assert [segment_errors([said], text, spaced)[0].sum() for text in (heard, wrong)] == [0, 1]


def test_word_errors_of_segments():
    errors, words = segment_errors(["One, two.", "", "three four"], "one x two and three")
    assert (errors.tolist(), words.tolist()) == ([1, 0, 2], [2, 0, 2])
    errors, words = segment_errors(["One.", "Two."], "one two three")
    assert errors.tolist() == [0, 1]
    assert segment_errors(["one"], "")[0].tolist() == [1]


def test_errors_by_distance():
    reference = {"talk0": [(0.0, 2.0, "One two three four.")]}
    chunks = [
        record(1.0, [("One", 0.1, 0.5), ("twin", 0.5, 0.95)]),
        record(1.5, [("One", 0.1, 0.5), ("two", 0.5, 1.0), ("tree", 1.0, 1.4)]),
        record(2.0, [("One", 0.1, 0.5), ("two", 0.5, 1.0), ("three", 1.0, 1.4), ("four", 1.4, 2)]),
    ]
    found = tail_errors(chunks, reference)
    assert found.words.sum(0).tolist() == [3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]
    assert found.errors.sum(0).tolist() == [2, *[0] * 15]
    assert found.rates()[0] == pytest.approx(2 / 3)
    assert np.isnan(found.rates()[1])


def curve(*rates, words=1000, talks=12):
    chance = np.random.default_rng(3)
    shape = (talks, len(rates))
    errors = chance.binomial(words, np.broadcast_to(rates, shape))
    edges = tuple(0.125 * k for k in range(len(rates) + 1))
    return TailErrors(edges, errors, np.full(shape, words))


def test_the_hold_back_is_where_the_curve_becomes_flat():
    flat = [0.083] * 14
    assert curve(0.171, 0.11, *flat).hold_back_s() == pytest.approx(0.25)
    assert curve(0.083, 0.083, *flat).hold_back_s() == pytest.approx(0.0, abs=0.13)
    assert curve(*[0.2] * 6, *[0.08] * 10).hold_back_s() == pytest.approx(0.75)
    few = tail_report(curve(0.1, 0.1, 0.1))
    assert few["hold_back_ms"] is None
    json.dumps(few, allow_nan=False)


def test_revised_words_are_taken_back_in_the_log():
    closed = ((Word("One", 0.1, 0.5), Word("two.", 0.5, 1.0)),)
    chunks = [
        record(1.0, [("One", 0.1, 0.5), ("to", 0.5, 0.9)], accessible=2),
        record(2.0, [("Three", 1.0, 1.5)], accessible=0, closed=closed),
        record(3.0, [("Three", 1.0, 1.5)], accessible=1),
        record(1.0, [("New", 0.1, 0.5)], talk="talk1"),
    ]
    lines = transcript_log(chunks)
    said, taken_back = ([line.get(key) for line in lines] for key in TOKENS)
    assert said == [None, ["One", "to"], ["two."], ["Three"], None, ["New"]]
    assert taken_back == [None, [], ["to"], [], None, []]


def test_command_on_a_recorded_run(finished, tmp_path, capsys, monkeypatch):
    devset, out = fakes.write_devset(tmp_path / "devset"), finished.root / "out" / "low"
    transcript = (devset / "ref" / "en.txt").rename(tmp_path / "en.txt")
    arguments = ["asr", str(out / "de"), "--devset", str(devset), "--output", str(tmp_path / "asr")]
    assert main(arguments) == 2
    assert "en.txt does not exist" in capsys.readouterr().err
    transcript.rename(devset / "ref" / "en.txt")
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "WER 0.00 [0.00, 0.00] %" in text
    assert "CER 0.00 %" in text
    found = json.loads((tmp_path / "asr" / "asr.json").read_text())
    # words of half a second in chunks of 0.85 s, the first after 2 s
    assert 200 < found["longyaal_cu_ms"] < 1500
    assert found["longyaal_ca_ms"] >= found["longyaal_cu_ms"]
    assert "<svg" in (tmp_path / "asr" / "tail_error.svg").read_text()
    assert main(["asr", str(tmp_path), *arguments[2:]]) == 2
    assert "steps.jsonl does not exist" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(arguments) == 0
    assert "no plot: figures need matplotlib: pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("latency", "name", "margin"),
    [(0, "low", 2000), (2000, "low", 0), (2001, "high", 1999), (4000, "high", 0),
     (4100, "none", -100), (-30, "none", -30)],
)  # fmt: skip
def test_regimes(latency, name, margin):
    assert regime_of(latency) == (name, margin)
    shown = Result("", "de", Scores(0, 0, latency, None, None), {}, {}).regime
    assert ("outside by" in shown) == (name == "none")


def test_a_run_is_not_deleted(finished, tmp_path):
    devset, out = finished.devset, finished.root / "out" / "low"
    run = shutil.copytree(out / "de", tmp_path / "run" / "de")
    link = tmp_path / "link"
    link.symlink_to(run)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for output in (run, link, tmp_path / "run" / "de" / ".." / "de"):
        assert main(["asr", str(run), "--devset", str(devset), "--output", str(output)]) == 2
    other = tmp_path / "other"
    other.mkdir()
    for name in ("agent.yaml", "wavs.txt", "run.log"):
        (other / name).write_text("by hand")
        assert main(["asr", str(run), "--devset", str(devset), "--output", str(other)]) == 2
        assert (other / name).read_text() == "by hand"
        (other / name).unlink()
    offline = ["offline", "--config", str(finished.root / "low.yaml"), "--devset", str(devset)]
    assert main([*offline, "--target", "de", "--output", str(tmp_path / "run")]) == 2
    score = ["eval", "--score-only", str(out / "de" / "metrics.jsonl"), "--target", "de"]
    assert main([*score, "--devset", str(devset), "--output", str(tmp_path / "run")]) == 2
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
