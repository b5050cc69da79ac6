"""Logs whose units are pieces of words: recognised, refused, and scored with the right option."""

from __future__ import annotations

import io
import json

import pytest
import sentencepiece
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from alignatt_agent.evaluation.subwords import BYTE_LEVEL, MARKS, SENTENCEPIECE, WORDPIECE
from tests.evaluation import logs
from tests.fakes import agent as fakes


def sentencepiece_pieces(texts):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return lambda word: processor.encode(word, out_type=str)


def _fast(tokenizer, trainer, texts):
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


def byte_level(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["[UNK]"], initial_alphabet=alphabet, show_progress=False
    )
    return _fast(tokenizer, trainer, texts)


def wordpiece(texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=45, special_tokens=["[UNK]"], show_progress=False
    )
    return _fast(tokenizer, trainer, texts)


def resplit(log, split):
    """Return a log whose words are pieces."""
    steps = json.loads(json.dumps(log))
    for line in steps:
        for key in ("generated_tokens", "deleted_tokens"):
            if key in line:
                line[key] = [piece for word in line[key] for piece in split(word)]
    return steps


@pytest.fixture(scope="module")
def original():
    """A log of some errors and some umlauts."""
    spoilt = {"Wort3": "Wörter", "Wort5": "Straße"}
    return logs.lines(spoil=lambda text: spoilt.get(text, text))


@pytest.fixture(scope="module")
def tokenizers(original, tmp_path_factory):
    """By kind: what splits a word, and the option that joins its pieces."""
    texts = [word for line in original for word in line.get("generated_tokens", ())] * 3
    bpe, wp = byte_level([f" {text}" for text in texts]), wordpiece(texts)
    folders = {}
    for name, tokenizer in (("bpe", bpe), ("wordpiece", wp)):
        folders[name] = str(tmp_path_factory.mktemp(name))
        tokenizer.save_pretrained(folders[name])
    spm = {"detokenizer_type": "simuleval", "latency_unit": "spm"}
    return {
        SENTENCEPIECE: (sentencepiece_pieces(texts), spm),
        BYTE_LEVEL: (
            lambda word: bpe.tokenize(f" {word}"),
            {"detokenizer_type": "hf", "hf_model_name": folders["bpe"]},
        ),
        WORDPIECE: (
            wp.tokenize,
            {"detokenizer_type": "hf", "hf_model_name": folders["wordpiece"]},
        ),
    }


KEYS = ("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms", "stream_laal_cu_ms")


@pytest.fixture(scope="module")
def expected(original, tmp_path_factory):
    """Scores of the original log."""
    status, scores = score(tmp_path_factory.mktemp("original"), original)
    assert status == 0
    assert 20 < scores["bleu"] < 99
    return {key: scores[key] for key in KEYS}


def score(folder, log, config=None):
    """Score a log and return exit status and scores."""
    devset = folder / "devset"
    if not devset.is_dir():
        fakes.write_devset(devset)
    path = folder / "theirs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log))
    arguments = ["--score-only", path, "--target", "de", "--devset", devset]
    arguments += ["--output", folder / "out"]
    if config is not None:
        (folder / "join.yaml").write_text(yaml.safe_dump(config))
        arguments += ["--log-config", folder / "join.yaml"]
    status = fakes.evaluate([str(item) for item in arguments])
    scores = folder / "out" / "de" / "scores.json"
    found = json.loads(scores.read_text()) if scores.is_file() else None
    return status, found


@pytest.mark.parametrize("kind", MARKS)
def test_refused_as_words_and_scored_with_its_option(
    capsys, tmp_path, original, expected, tokenizers, kind
):
    split, option = tokenizers[kind]
    log = resplit(original, split)
    units = sum(len(line.get("generated_tokens", ())) for line in log)
    assert units > 25  # 21 words
    status, scores = score(tmp_path, log)
    assert (status, scores) == (1, None)
    error = capsys.readouterr().err
    assert f"the units are {kind} pieces" in error
    named = "latency_unit: spm" if kind == SENTENCEPIECE else "detokenizer_type: hf"
    assert named in error
    assert "--log-config" in error

    status, scores = score(tmp_path, log, option)
    assert status == 0, capsys.readouterr().err
    assert {key: scores[key] for key in KEYS} == expected


def test_an_option_for_another_kind_is_refused(capsys, tmp_path, original, tokenizers):
    log = resplit(original, tokenizers[BYTE_LEVEL][0])
    status, scores = score(tmp_path, log, tokenizers[SENTENCEPIECE][1])
    assert (status, scores) == (1, None)
    assert f"the units are {BYTE_LEVEL} pieces" in capsys.readouterr().err
    status, _ = score(tmp_path, log, tokenizers[WORDPIECE][1])
    assert status == 2
    assert "are not in the vocabulary of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"detokenizer_type": "hf", "hf_model_name": "a/b"}, "a/b (hf_model_name) is not on this"),
        ({"detokenizer_type": "hf"}, "needs hf_model_name"),
        ({"detokenizer_type": "canary", "model_name": "x"}, "needs nemo_toolkit"),
        ({"detokenizer_type": "hf", "hf_model_name": "empty"}, "is no tokenizer"),
    ],
)
def test_what_is_not_here_is_named_at_once(capsys, tmp_path, original, option, message):
    (tmp_path / "empty").mkdir()
    status, scores = score(tmp_path, original, option)
    assert (status, scores) == (2, None)
    assert message in capsys.readouterr().err
