"""``simulstream-eval --score-only``: the official scores of any log, and no score of a bad one."""

import csv
import json
import shutil
import subprocess
import sys

import pytest
import yaml

from alignatt_agent.evaluation.subwords import BYTE_LEVEL, SENTENCEPIECE
from tests.evaluation import logs
from tests.fakes import agent as fakes

SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "longyaal_cu_ms": "LongYAAL (CU)",
    "longyaal_ca_ms": "LongYAAL (CA)",
}


@pytest.fixture(scope="module")
def devset(tmp_path_factory):
    """Re-scoring needs no audio: the recordings of published logs are rarely available."""
    folder = fakes.write_devset(tmp_path_factory.mktemp("rescore") / "devset")
    for wav in (folder / "wav").iterdir():
        wav.unlink()
    return folder


def official(folder, devset, log, target, form):
    """What the ``omnisteval`` command prints, by its own names."""
    folder.mkdir()
    char = target == "zh"
    config = ["--simulstream_config_file", str(log.parent / "agent.yaml")]
    command = [
        *(sys.executable, "-m", "omnisteval.cli", "longform"),
        *("--speech_segmentation", str(devset / "audio-segments.yaml")),
        *("--ref_sentences_file", str(devset / "ref" / f"{target}.txt")),
        *("--hypothesis_file", str(log), "--hypothesis_format", form),
        *(config if form == "simulstream" else []),
        *(["--char_level"] if char else ["--word_level"]),
        *("--lang", target, "--bleu_tokenizer", "zh" if char else "13a"),
        *("--output_folder", str(folder)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with (folder / "scores.tsv").open() as stream:
        return {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}


@pytest.mark.parametrize(
    ("target", "form"), [("zh", "simulstream"), ("de", "jsonl"), ("de", "revisions")]
)
def test_equal_to_omnisteval_to_the_last_digit(capsys, tmp_path, devset, target, form):
    changed = str.maketrans({"3": "7", "三": "七", "。": "．\u3000"})
    log = logs.lines(target=target, spoil=lambda text: text.translate(changed))
    if form == "revisions":
        log, form = logs.with_revisions(log), "simulstream"
    content = logs.as_jsonl(log, target) if form == "jsonl" else log
    path = logs.write(tmp_path / "theirs" / "log.jsonl", content, target)
    expected = official(tmp_path / "official", devset, path, target, form)
    status, scores = logs.rescore(path, devset, tmp_path / "out", target)
    assert status == 0
    assert 10 < scores["bleu"] < 99
    for key, name in SCORES.items():
        assert f"{scores[key]:.4f}" == expected[name]
    assert scores["longyaal_ca_ms"] == pytest.approx(scores["longyaal_cu_ms"] + 100)
    assert "omnisteval longform" in capsys.readouterr().out
    if form == "simulstream":
        assert scores["stream_laal_ca_ms"] > scores["stream_laal_cu_ms"] > 0
        assert scores["rtf"] == pytest.approx(12 * 0.1 / 10.5, rel=0.01)


def test_a_slow_machine_has_no_computation_aware_latency(tmp_path, devset):
    """All words come after the end of their recordings, which LongYAAL ignores."""
    path = logs.write(tmp_path / "log.jsonl", logs.lines(computation_s=20))
    status, scores = logs.rescore(path, devset, tmp_path / "out", "de")
    assert (status, scores["longyaal_ca_ms"]) == (0, None)
    assert scores["longyaal_cu_ms"] > 0
    (note,) = scores["notes"]
    assert note.startswith("no LongYAAL CA: with the computation times, all units were emitted aft")


def test_jsonl_without_computation_times(capsys, tmp_path, devset):
    entries = logs.as_jsonl(logs.lines())
    for entry in entries:
        del entry["elapsed"]
    status, scores = score(tmp_path, devset, entries)
    assert (status, scores["longyaal_ca_ms"]) == (0, None)
    assert scores["longyaal_cu_ms"] > 0
    entries[0]["delays"].pop()
    assert score(tmp_path / "cut", devset, entries) == (1, None)
    delays, words = len(entries[0]["delays"]), len(entries[0]["prediction"].split())
    assert f"delays: {delays} values for {words} words" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["jsonl", "simulstream"])
def test_quality_is_scored_if_everything_is_emitted_at_the_end(capsys, tmp_path, devset, form):
    log = logs.lines(lag_words=100)
    status, scores = score(tmp_path, devset, logs.as_jsonl(log) if form == "jsonl" else log)
    assert (status, scores["bleu"], scores["longyaal_cu_ms"]) == (0, 100.0, None)
    note = "no LongYAAL: all units were emitted after the end of the last segment"
    assert scores["notes"] == [note]
    assert note in capsys.readouterr().out
    assert note in (tmp_path / "out" / "de" / "report.md").read_text()


def test_quality_is_scored_without_delays(capsys, tmp_path, devset):
    entries = logs.as_jsonl(logs.lines())
    for entry in entries:
        del entry["elapsed"], entry["delays"]
    status, scores = score(tmp_path, devset, entries)
    assert (status, scores["bleu"], scores["longyaal_cu_ms"]) == (0, 100.0, None)
    assert scores["notes"] == ["no LongYAAL: the log contains no delays"]


def test_computation_times_of_zero_are_noted(tmp_path, devset):
    status, scores = score(tmp_path, devset, logs.lines(computation_s=0.0))
    assert (status, scores["longyaal_ca_ms"]) == (0, scores["longyaal_cu_ms"])
    assert "so LongYAAL CA equals CU" in scores["notes"][0]


def test_delays_in_seconds_are_refused(capsys, tmp_path, devset):
    entries = logs.as_jsonl(logs.lines())
    for entry in entries:
        entry["delays"] = [delay / 1000 for delay in entry["delays"]]
    assert score(tmp_path, devset, entries) == (1, None)
    message = "log.jsonl:1: talk0: 13 units have delays of at most 6.50006 ms; delays are millisec"
    assert message in capsys.readouterr().err


def test_a_silent_talk_counts_and_is_named(capsys, tmp_path, devset):
    log = [
        line | {"generated_tokens": []} if line.get("id") == 1 and "metadata" not in line else line
        for line in logs.lines()
    ]
    status, scores = score(tmp_path, devset, log)
    assert status == 0
    assert "warning: talk1: nothing was emitted" in capsys.readouterr().err
    assert 30 < scores["bleu"] < 70
    assert scores["paced"]["longest_silence_s"] == pytest.approx(4.2, abs=0.01)


@pytest.mark.parametrize("empty", [False, True])
def test_references_of_others(capsys, tmp_path, devset, empty):
    """A byte order mark, characters that Python takes for ends of lines, nothing as the last."""
    other = shutil.copytree(devset, tmp_path / "devset")
    lines = (other / "ref/de.txt").read_text().split("\n")[:-1]
    first, *rest, last = (line.replace(" ", "\u2028\x85") for line in lines)
    (other / "ref/de.txt").write_text(
        "\n".join([f"\ufeff{first}", *rest, "" if empty else last, ""])
    )
    status, scores = score(tmp_path, other, logs.lines())
    assert status == 0
    assert (scores["bleu"] == 100) == ("stream_laal_cu_ms" in scores) == (not empty)
    printed = capsys.readouterr()
    assert "de.txt: scorers misread byte order marks" in printed.err
    failed = "StreamLAAL was not measured: AssertionError: Reference (talk1)"
    assert (
        (failed in printed.out) == (failed in (tmp_path / "out/de/report.md").read_text()) == empty
    )
    assert scores["talks"]["talk0"]["longyaal_cu_ms"] > 0


def test_a_log_is_not_overwritten(capsys, tmp_path, devset):
    path = logs.write(tmp_path / "out" / "de" / "metrics.jsonl", logs.lines())
    assert logs.rescore(path, devset, tmp_path / "out") == (2, None)
    assert "choose another --output" in capsys.readouterr().err
    assert path.is_file()


def score(folder, devset, log, option=None):
    """Score a log, joined as ``option`` says; return exit status and scores."""
    path = logs.write(folder / "theirs" / "log.jsonl", log)
    config = folder / "join.yaml" if option else None
    if config:
        config.write_text(yaml.safe_dump(option))
    return logs.rescore(path, devset, folder / "out", config=config)


def test_pieces_are_refused_as_words_and_scored_with_their_option(capsys, tmp_path, devset):
    spoilt = {"Wort3": "Wörter", "Wort5": "Straße"}
    words = logs.lines(spoil=lambda text: spoilt.get(text, text))
    pieces = [
        line
        | {"generated_tokens": [p for w in line["generated_tokens"] for p in (f"▁{w[:2]}", *w[2:])]}
        if "generated_tokens" in line
        else line
        for line in words
    ]
    assert score(tmp_path / "refused", devset, pieces) == (1, None)
    error = capsys.readouterr().err
    assert f"the units are {SENTENCEPIECE} pieces" in error
    assert "--log-config" in error
    _, expected = score(tmp_path / "words", devset, words)
    assert 20 < expected["bleu"] < 99
    spm = {"detokenizer_type": "simuleval", "latency_unit": "spm"}
    status, scores = score(tmp_path / "joined", devset, pieces, spm)
    assert status == 0, capsys.readouterr().err
    keys = (*SCORES, "stream_laal_cu_ms")
    assert [scores[key] for key in keys] == [expected[key] for key in keys]
    bytes_ = json.loads(json.dumps(pieces).replace("\\u2581", "\\u0120"))
    assert score(tmp_path / "bytes", devset, bytes_, spm) == (1, None)
    assert f"the units are {BYTE_LEVEL} pieces" in capsys.readouterr().err


def test_an_option_that_cannot_join_is_refused(capsys, tmp_path, devset):
    assert score(tmp_path, devset, logs.lines(), {"hostname": "localhost"}) == (2, None)
    assert "lacks detokenizer_type" in capsys.readouterr().err
