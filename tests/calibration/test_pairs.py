"""Pairs files: what is read, what is left out and counted, what is refused."""

import sys

import pytest

from alignatt_agent.calibration import contamination
from alignatt_agent.calibration.pairs import PairError, PairsError, make_pair, without_repeats
from alignatt_agent.calibration.pairs_file import parse_pharaoh, read_pairs
from alignatt_agent.calibration.prompted_pair import PairPrompter, unit_of_tokens
from alignatt_agent.config.languages import language
from alignatt_agent.translation.prompt import PromptBuilder
from tests.fakes.agent import byte_tokenizer

EN, DE, ZH = language("en"), language("de"), language("zh")


def written(tmp_path, *lines, name="pairs.tsv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("line", "target", "units", "gold"),
    [
        # A mark inherits the links of its word.
        ("We train.\tWir trainieren.\t0-0 1-1", DE, "Wir trainieren .", "0-0 1-1 1-2"),
        ("Use it.\t»L'un-o, (x.\t0-0 1p1", DE, "» L'un-o , ( x .", "0-0 0-1 0-2 1p3 1p4 1p5"),
        ("Yes.\tJa.", DE, "Ja .", None),
        ("Yes\tJa\t ", DE, "Ja", None),
        ("We do it\tWir tun\t0-0 1p1 2?1", DE, "Wir tun", "0-0 1-1 2-1"),
        # Characters are the units of Chinese, a run of Latin letters is one.
        (
            "We use BERT.\t我们用 BERT。\t0-0 0-1 1-2 2-3 2-4 2-5 2-6 2-7",
            *(ZH, "我 们 用 BERT 。", "0-0 0-1 1-2 2-3 2-4"),
        ),
    ],
)
def test_one_pair_a_line(tmp_path, line, target, units, gold):
    found = read_pairs(written(tmp_path, line, ""), EN, target)
    (pair,) = found.pairs
    assert (pair.units, pair.gold) == (units.split(), gold and parse_pharaoh(gold))
    assert not found.skipped


def test_bad_pairs_are_counted_and_left_out(tmp_path):
    bad = {
        "empty_side": [" \tWir.", "We.\t"],
        "alignment_out_of_range": ["We.\tWir.\t0-1", "We.\tWir.\t1p0"],
        "malformed_alignment": [
            f"We.\tWir.\t{links}"
            for links in ("zero", "1", "a-b", "0-0,1-1", "-1-0", "0--1", "0-1x")
        ],
        "malformed_line": ["We."],
    }
    lines = [line for items in bad.values() for line in items]
    found = read_pairs(written(tmp_path, "We.\tWir.\t0-0", *lines), EN, DE)
    assert len(found.pairs) == 1
    assert found.skipped == {reason: len(items) for reason, items in bad.items()}


def test_lines_that_are_not_text_or_no_pair(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"# a comment\n\xff\xfe\tWir\n\nWe\tWir\n")
    found = read_pairs(str(path), EN, DE)
    assert [pair.source for pair in found.pairs] == [("\ufffd\ufffd",), ("We",)]
    assert not found.skipped
    for text in ("", "# a comment", "only one cell", "\t"):
        with pytest.raises(PairsError, match="contains no usable pair"):
            read_pairs(written(tmp_path, text), EN, DE)


def test_sentences_of_a_dev_set_are_left_out(tmp_path):
    (tmp_path / "ref").mkdir()
    (tmp_path / "ref" / "en.txt").write_text("We train a model.\n\nThank you!\n")
    known = contamination.known_sentences([tmp_path])
    spec = written(tmp_path, "We go\tWir gehen", "thank  you\tDanke", "He\tEr")
    found = contamination.leave_out(read_pairs(spec, EN, DE), known)
    assert [pair.target for pair in found.pairs] == ["Wir gehen", "Er"]
    assert found.skipped["in_evaluation_data"] == 1
    mostly = written(tmp_path, "We train a model\tx", "Thank you\ty", "He\tEr", name="q.tsv")
    with pytest.raises(PairsError, match="2 of its 3 pairs are in a dev set"):
        contamination.leave_out(read_pairs(mostly, EN, DE), known)
    with pytest.raises(PairsError, match="is not a dev set"):
        contamination.known_sentences([tmp_path / "ref"])


def test_repeated_pairs_are_left_out(tmp_path):
    seen = set()
    lines = "We go\tWir gehen", "We  go\tWir gehen", "We go\tGehen wir"
    spec = written(tmp_path, *lines)
    first = without_repeats(read_pairs(spec, EN, DE), seen)
    assert [pair.target for pair in first.pairs] == ["Wir gehen", "Gehen wir"]
    assert first.skipped == {"repeated": 1}
    other = written(tmp_path, "We go\tWir gehen", "He goes\tEr geht", name="q.tsv")
    second = without_repeats(read_pairs(other, EN, DE), seen)
    assert [pair.target for pair in second.pairs] == ["Er geht"]


def test_the_embedded_dev_set_is_never_used():
    known = contamination.known_sentences([])
    assert len(known) > 100
    for target in ("de", "it", "zh"):
        drawn = read_pairs("micro:60:77", EN, language(target))
        assert all(pair.gold for pair in drawn.pairs)
        assert not contamination.leave_out(drawn, known).skipped["in_evaluation_data"]


def test_generated_pairs_need_a_checkout(monkeypatch):
    monkeypatch.setitem(sys.modules, "lab.micro_world.pairs", None)
    with pytest.raises(PairsError, match="lab/micro_world of the repository: run from a checkout"):
        read_pairs("micro:5", EN, DE)


def test_tokens_belong_to_the_unit_of_their_last_character():
    pair = make_pair(["a"], "Ja, gut", None, spaced=True)  # units: Ja | , | gut
    offsets = [(0, 2), (2, 3), (3, 4), (3, 5), (4, 7), (0, 0)]
    assert unit_of_tokens(pair, offsets) == [0, 1, None, 2, 2, None]


def test_prompted_pairs():
    tokenizer = byte_tokenizer()
    builder = PromptBuilder(tokenizer, "English", "German")
    prompted = PairPrompter(tokenizer, builder, 400)
    pair = make_pair(["We", "go."], "Wir gehen.", parse_pharaoh("0-0"), spaced=True)
    laid = prompted(pair, pair.gold)
    assert tokenizer.decode(laid.target_ids) == "Wir gehen."
    assert laid.source_words == ((0,),) * 3 + ((),) * 7
    with pytest.raises(PairError) as caught:
        prompted(pair, frozenset({(0, 5)}))
    assert caught.value.reason == "no_alignment"
    tight = len(laid.prompt.token_ids) + len(laid.target_ids) + 2
    PairPrompter(tokenizer, builder, tight)(pair, pair.gold)
    with pytest.raises(PairError) as caught:
        PairPrompter(tokenizer, builder, tight - 1)(pair, pair.gold)
    assert caught.value.reason == "too_long"
    other = PromptBuilder(tokenizer, "English", "Italian")
    assert prompted.digest() != PairPrompter(tokenizer, other, 400).digest()
