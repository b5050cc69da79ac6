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


def _without_talk(log):
    return [line for line in log if line.get("id") != 1]


def _twice(log):
    return [*log, *log]


def _talk_twice(log):
    return [*log, *({**line, "id": 7} for line in log if line.get("id") == 0)]


def _two_streams(log):
    return [*log, next(line for line in log if "generated_tokens" in line)]


def _unknown(log):
    return json.loads(json.dumps(log).replace("talk1", "talk9"))


def _interrupted(log):
    return [line for line in log if line.get("total_audio_processed", 0) < 3]


def _silent(log):
    return [{**line, "generated_tokens": []} if "id" in line else line for line in log if line]


def _spaces(log):
    return json.loads(json.dumps(log, ensure_ascii=False).replace("Wort3", "Wort\u3000drei"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without_talk, "talks missing from the log: talk1 (1 of 2 are there)"),
        (_twice, "the log of a rerun was appended to another"),
        (_talk_twice, "talk0 was streamed 2 times"),
        (_two_streams, "goes back from"),
        (_unknown, "the segmentation does not have: talk9"),
        (_interrupted, "talk0: heard up to 2.000 s, but its last segment starts at 6.0 s"),
        (_silent, "nothing was emitted for 11 s of audio"),
        (_spaces, "talk0: 1 tokens are not units: 'Wort\\u3000drei' holds white space"),
    ],
)
def test_a_bad_log_gets_a_message_and_no_score(capsys, tmp_path, damage, message):
    devset = fakes.write_devset(tmp_path / "devset")
    log = [line for line in damage(logs.lines()) if line]
    path = logs.write(tmp_path / "log.jsonl", log)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 1
    assert message in error
    assert not (tmp_path / "out" / "de" / "scores.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: the run wrote nothing"),
        ('{"a": 1}\n', "expected Simulstream's log"),
        ('{"model_loading_time": 1.0}\n{"id": 0, "meta', ":2: not JSON"),
        ("[1]\n", ":1: list, expected an object"),
    ],
)
def test_not_a_log(capsys, tmp_path, text, message):
    devset = fakes.write_devset(tmp_path / "devset")
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status in (1, 2)
    assert message in error


def test_every_problem_is_listed(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    log = [*_without_talk(_interrupted(logs.lines())), {"id": 5}, {"id": 0, "metadata": {}}]
    path = logs.write(tmp_path / "log.jsonl", log)
    with path.open("ab") as stream:
        stream.write(b"\xff\n")
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 1
    for message in (
        ":5: lacks total_audio_processed, computation_time, generated_tokens",
        ":6: metadata without wav_name",
        ":7: not JSON ('utf-8' codec can't decode byte 0xff",
        "talks missing from the log: talk1",
        "talk0: heard up to 2.000 s",
    ):
        assert message in error


def test_jsonl_with_the_wrong_number_of_delays(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    entries = logs.as_jsonl(logs.lines())
    entries[1]["delays"].pop()
    path = logs.write(tmp_path / "log.jsonl", entries)
    status, _, error = score_only(capsys, path, "de", devset, tmp_path / "out")
    assert status == 1
    assert ":2: 7 delays for 8 units (words of the prediction)" in error


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
