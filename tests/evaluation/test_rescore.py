"""``simulstream-eval --score-only``: the official scores of any log, and no score of a bad one."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from tests.evaluation import logs
from tests.fakes import agent as fakes


def official(folder, devset, log, target, form, config):
    """What the ``omnisteval`` command prints, by its own names."""
    folder.mkdir()
    char = target == "zh"
    command = [
        *(sys.executable, "-m", "omnisteval.cli", "longform"),
        *("--speech_segmentation", str(devset / "audio-segments.yaml")),
        *("--ref_sentences_file", str(devset / "ref" / f"{target}.txt")),
        *("--hypothesis_file", str(log), "--hypothesis_format", form),
        *(["--simulstream_config_file", str(config)] if form == "simulstream" else []),
        *(["--char_level"] if char else ["--word_level"]),
        *("--lang", target, "--bleu_tokenizer", "zh" if char else "13a"),
        *("--output_folder", str(folder)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with (folder / "scores.tsv").open() as stream:
        return {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}


def score_only(capsys, log, target, devset, out, *more):
    arguments = ["--score-only", log, "--target", target, "--devset", devset, "--output", out]
    status = fakes.evaluate([str(item) for item in (*arguments, *more)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("target", "form"),
    [("de", "simulstream"), ("zh", "simulstream"), ("de", "jsonl"), ("de", "revisions")],
)
def test_equal_to_omnisteval_to_the_last_digit(capsys, tmp_path, target, form):
    devset = fakes.write_devset(tmp_path / "devset")
    # Re-scoring needs no audio: the recordings of published logs are rarely at hand.
    for wav in (devset / "wav").iterdir():
        wav.unlink()
    log = logs.lines(target=target, spoil=lambda text: text.replace("3", "7").replace("三", "七"))
    if form == "revisions":
        log = logs.with_revisions(log)
    content = logs.as_jsonl(log, target) if form == "jsonl" else log
    path = logs.write(tmp_path / "theirs" / "log.jsonl", content, target)
    expected = official(
        tmp_path / "official",
        devset,
        path,
        target,
        "jsonl" if form == "jsonl" else "simulstream",
        path.parent / "agent.yaml",
    )
    status, text, error = score_only(capsys, path, target, devset, tmp_path / "out")
    assert status == 0, error
    scores = json.loads((tmp_path / "out" / target / "scores.json").read_text())
    assert 10 < scores["bleu"] < 99
    for name, key in [
        ("BLEU", "bleu"),
        ("chrF", "chrf"),
        ("LongYAAL (CU)", "longyaal_cu_ms"),
        ("LongYAAL (CA)", "longyaal_ca_ms"),
    ]:
        assert f"{scores[key]:.4f}" == expected[name]
    assert scores["longyaal_ca_ms"] == pytest.approx(scores["longyaal_cu_ms"] + 100)
    assert "omnisteval longform" in text
    if form != "jsonl":
        assert scores["stream_laal_ca_ms"] > scores["stream_laal_cu_ms"] > 0
        assert scores["rtf"] == pytest.approx(12 * 0.1 / 10.5, rel=0.01)


def test_a_bad_log_gets_a_message_and_no_score(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    log = [line for line in logs.lines() if line.get("id") != 1]
    path = logs.write(tmp_path / "log.jsonl", log)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 1
    assert "talks missing from the log: talk1 (1 of 2 are there)" in error
    assert not (tmp_path / "out" / "de" / "scores.json").exists()


def test_jsonl_without_computation_times(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    entries = logs.as_jsonl(logs.lines())
    for entry in entries:
        del entry["elapsed"]
    path = logs.write(tmp_path / "log.jsonl", entries)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 0, error
    scores = json.loads((tmp_path / "out" / "de" / "scores.json").read_text())
    assert scores["longyaal_ca_ms"] is None
    assert scores["longyaal_cu_ms"] > 0


def test_a_silent_talk_counts_and_is_named(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    log = [
        {**line, "generated_tokens": []}
        if line.get("id") == 1 and "deleted_tokens" in line
        else line
        for line in logs.lines()
    ]
    path = logs.write(tmp_path / "log.jsonl", log)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 0, error
    assert "warning: talk1: nothing was emitted" in error
    scores = json.loads((tmp_path / "out" / "de" / "scores.json").read_text())
    assert 30 < scores["bleu"] < 70
    assert scores["paced"]["longest_silence_s"] == pytest.approx(4.2, abs=0.01)


def test_chinese_with_fullwidth_spaces_and_marks(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    plain = logs.write(tmp_path / "a" / "log.jsonl", logs.lines(target="zh"), "zh")
    odd = logs.lines(target="zh", spoil=lambda text: text.replace("。", "．\u3000"))
    path = logs.write(tmp_path / "b" / "log.jsonl", odd, "zh")
    scores = []
    for number, item in enumerate((plain, path)):
        status, _, error = score_only(capsys, item, "zh", devset, tmp_path / f"out{number}")
        assert status == 0, error
        found = json.loads((tmp_path / f"out{number}" / "zh" / "scores.json").read_text())
        scores.append(found["bleu"])
    assert scores[0] > 99
    assert 40 < scores[1] < scores[0]


def test_a_log_is_not_overwritten(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    path = logs.write(tmp_path / "out" / "de" / "metrics.jsonl", logs.lines())
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 2
    assert "take another --output" in error
    assert path.is_file()


def test_a_configuration_without_a_detokenizer(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    path = logs.write(tmp_path / "log.jsonl", logs.lines())
    (tmp_path / "proxy.yaml").write_text("hostname: localhost\nport: 8080\n")
    more = ["--log-config", tmp_path / "proxy.yaml"]
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out", *more)
    assert status == 2
    assert "has no detokenizer_type" in error
