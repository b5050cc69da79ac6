"""``simulstream-eval --score-only``: the official scores of any log, and no score of a bad one."""

import csv
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


def test_jsonl_without_computation_times(tmp_path, devset):
    entries = logs.as_jsonl(logs.lines())
    for entry in entries:
        del entry["elapsed"]
    status, scores = score(tmp_path, devset, entries)
    assert (status, scores["longyaal_ca_ms"]) == (0, None)
    assert scores["longyaal_cu_ms"] > 0


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
    assert "de.txt: scorers misread a byte order mark" in printed.err
    failed = "StreamLAAL was not measured: AssertionError: Reference (talk1)"
    assert (
        (failed in printed.out) == (failed in (tmp_path / "out/de/report.md").read_text()) == empty
    )
    assert scores["talks"]["talk0"]["longyaal_cu_ms"] > 0


def test_a_log_is_not_overwritten(capsys, tmp_path, devset):
    path = logs.write(tmp_path / "out" / "de" / "metrics.jsonl", logs.lines())
    assert logs.rescore(path, devset, tmp_path / "out") == (2, None)
    assert "name another --output" in capsys.readouterr().err
    assert path.is_file()


# ------------------------------------------------------------------ SimulEval's JSONL
CHUNK_S = 0.3
"""Computation of a chunk."""


def adding_up(entries):
    """Return entries whose elapsed times hold the computation of the whole talk so far."""
    for entry in entries:
        chunks = {delay: place for place, delay in enumerate(sorted(set(entry["delays"])))}
        computed = [1000 * CHUNK_S * (chunks[delay] + 1) for delay in entry["delays"]]
        entry["elapsed"] = [sum(pair) for pair in zip(entry["delays"], computed, strict=True)]
    return entries


def test_times_that_add_up_are_noticed_and_corrected(capsys, tmp_path):
    devset = fakes.write_devset(tmp_path / "devset", (120,))
    log = logs.lines((120,), computation_s=CHUNK_S)
    path = logs.write(tmp_path / "log.jsonl", adding_up(logs.as_jsonl(log)))
    status, wrong = logs.rescore(path, devset, tmp_path / "wrong")
    assert status == 0
    error = capsys.readouterr().err
    assert "elapsed of talk0 continues for 18 s after the recording" in error
    assert "--fix-simuleval-ca (OmniSTEval's --fix_simuleval_emission_ca)" in error
    status, fixed = logs.rescore(path, devset, tmp_path / "fixed", more=["--fix-simuleval-ca"])
    assert status == 0
    printed = capsys.readouterr()
    assert "after the recording" not in printed.err
    assert "--fix_simuleval_emission_ca" in printed.out  # in the official command
    expected = fixed["longyaal_cu_ms"] + 1000 * CHUNK_S
    assert fixed["longyaal_ca_ms"] == pytest.approx(expected, abs=0.01)
    assert fixed["longyaal_cu_ms"] == wrong["longyaal_cu_ms"]
    assert wrong["longyaal_ca_ms"] > expected + 2000
    assert "made incremental" in fixed["signature"]["latency"]


def test_the_correction_of_other_logs_is_refused(capsys, tmp_path, devset):
    path, fix = logs.write(tmp_path / "log.jsonl", logs.lines()), ["--fix-simuleval-ca"]
    assert logs.rescore(path, devset, tmp_path / "out", more=fix)[0] == 2
    message = "is Simulstream's; --fix-simuleval-ca is for SimulEval's JSONL"
    assert message in capsys.readouterr().err
    given = ["--target", "de", "--devset", "none", "--output", "none"]
    assert fakes.evaluate([*given, *fix]) == 2
    assert "--fix-simuleval-ca has no meaning without --score-only" in capsys.readouterr().err


# ------------------------------------------------------------------ logs of pieces of words
@pytest.fixture(scope="module")
def original():
    """A log of some errors and some umlauts."""
    spoilt = {"Wort3": "Wörter", "Wort5": "Straße"}
    return logs.lines(spoil=lambda text: spoilt.get(text, text))


@pytest.fixture(scope="module")
def expected(original, devset, tmp_path_factory):
    """Scores of the words themselves."""
    return score(tmp_path_factory.mktemp("words"), devset, original)[1]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """By kind: what splits a word, and the option that joins its pieces."""
    bpe, folder = fakes.byte_tokenizer(), tmp_path_factory.mktemp("bpe")
    bpe.save_pretrained(folder)
    spm = {"detokenizer_type": "simuleval", "latency_unit": "spm"}
    hf = {"detokenizer_type": "hf", "hf_model_name": str(folder)}
    return {
        SENTENCEPIECE: (lambda word: [f"▁{word[:2]}", *word[2:]], spm),
        BYTE_LEVEL: (lambda word: bpe.tokenize(f" {word}"), hf),
    }


def score(folder, devset, log, option=None):
    """Score a log, joined as ``option`` says; return exit status and scores."""
    path = logs.write(folder / "theirs" / "log.jsonl", log)
    config = folder / "join.yaml" if option else None
    if config:
        config.write_text(yaml.safe_dump(option))
    return logs.rescore(path, devset, folder / "out", config=config)


def split_again(log, split):
    return [
        line | {"generated_tokens": [p for word in line["generated_tokens"] for p in split(word)]}
        if "generated_tokens" in line
        else line
        for line in log
    ]


@pytest.mark.parametrize("kind", [SENTENCEPIECE, BYTE_LEVEL])
def test_pieces_are_refused_as_words_and_scored_with_their_option(
    capsys, tmp_path, devset, original, expected, tokenizers, kind
):
    assert 20 < expected["bleu"] < 99
    split, option = tokenizers[kind]
    log = split_again(original, split)
    assert score(tmp_path, devset, log) == (1, None)
    error = capsys.readouterr().err
    named = "latency_unit: spm" if kind == SENTENCEPIECE else "detokenizer_type: hf"
    for text in (f"the units are {kind} pieces", named, "--log-config"):
        assert text in error
    status, scores = score(tmp_path, devset, log, option)
    assert status == 0, capsys.readouterr().err
    keys = (*SCORES, "stream_laal_cu_ms")
    assert [scores[key] for key in keys] == [expected[key] for key in keys]


def test_an_option_for_another_kind_is_refused(capsys, tmp_path, devset, original, tokenizers):
    log = split_again(original, tokenizers[BYTE_LEVEL][0])
    assert score(tmp_path, devset, log, tokenizers[SENTENCEPIECE][1]) == (1, None)
    assert f"the units are {BYTE_LEVEL} pieces" in capsys.readouterr().err
    log = split_again(original, tokenizers[SENTENCEPIECE][0])
    assert score(tmp_path, devset, log, tokenizers[BYTE_LEVEL][1])[0] == 2
    assert "are not in the vocabulary of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"detokenizer_type": "hf", "hf_model_name": "a/b"}, "a/b (hf_model_name) is not on this"),
        ({"detokenizer_type": "hf"}, "needs hf_model_name"),
        ({"detokenizer_type": "canary", "model_name": "x"}, "needs nemo_toolkit"),
        ({"detokenizer_type": "hf", "hf_model_name": "empty"}, "is not a tokenizer"),
        ({"hostname": "localhost"}, "has no detokenizer_type"),
    ],
)
def test_options_that_cannot_join(capsys, tmp_path, devset, original, option, message):
    (tmp_path / "empty").mkdir()
    assert score(tmp_path, devset, original, option) == (2, None)
    assert message in capsys.readouterr().err
