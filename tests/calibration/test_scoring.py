"""Scores of heads whose attention the tests lay out by hand, and runs that are interrupted."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.calibration import head_set_file
from alignatt_agent.calibration.head_scores import (
    AlignedPair,
    cumulative_hits,
    head_hits,
    rank,
    score,
    split,
)
from alignatt_agent.calibration.pairs import CalibrationError
from alignatt_agent.calibration.row_reader import Loaded
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.types import AttentionRows, EngineError, Prompt
from alignatt_agent.types.engines import Readout
from tests.fakes.models import averaged_score

LAYERS, HEADS = 2, 3
ALL = tuple((a, b) for a in range(LAYERS) for b in range(HEADS))
WIDTH = 4


def pair(targets):
    """A pair of four one-token source words; ``targets`` lists the aligned words of each token."""
    prompt = Prompt((9, 9, 1, 2, 3, 4, 9), 2, (0, 1, 2, 3))
    return AlignedPair(prompt, tuple(range(20, 20 + len(targets))), tuple(targets))


class FakeReader:
    """Heads that look at the right word with a given probability, under one row convention.

    The first of ``heads`` follows the source when it predicts, the last when it has emitted; the
    others look anywhere.
    """

    def __init__(self, pairs, broken=(), heads=ALL):
        self._heads = heads
        self._right = {id(p.prompt): (number, p) for number, p in enumerate(pairs)}
        self._broken = set(broken)
        self.asked = []
        self.dies_after = None

    def rows(self, prompt, token_ids, readout: Readout):
        self.asked.append(token_ids)
        if self.dies_after is not None and len(self.asked) > self.dies_after:
            raise EngineError("the engine was shut down")
        number, aligned = self._right[id(prompt)]
        if number in self._broken:
            raise EngineError("too long for me")
        rng = np.random.default_rng(number)
        shape = (len(aligned.target_ids) + 1, len(self._heads), WIDTH)  # + the prompt's last query
        every = rng.random(shape).astype(np.float32) * 0.05
        for token, words in enumerate(aligned.source_words):
            if words:
                every[token, 0, words[0]] += 0.5
                every[token + 1, -1, words[0]] += 0.5
        first = int(readout.row == "emitted")
        heads = [self._heads.index(head) for head in readout.heads]
        source = every[first : first + len(token_ids), heads]
        zero = np.zeros(source.shape[:2], np.float32)
        return AttentionRows(source, zero, zero)


TARGETS = ([(1,), (0,), (), (3, 2)], [(2,), (2,), (1,)], [(0,), (3,)], [(), (1,)], [(3,), (2,)])
PAIRS = [pair(targets) for targets in TARGETS]


def peaks(*places):
    """Rows with one peak for each token and head."""
    return np.eye(WIDTH, dtype=np.float32)[list(places)]


def test_hits_leave_unaligned_tokens_out_and_count_by_word():
    rows = peaks([1, 1], [3, 3], [2, 3])
    assert head_hits(rows, pair([(1,), (), (0, 2)])).tolist() == [2, 1]
    words = AlignedPair(Prompt((9, 1, 2, 3, 4, 9), 1, (0, 1, 1, 2)), (5,), ((1,),))
    assert head_hits(peaks([0, 1, 2, 3]), words).tolist() == [0, 1, 1, 0]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_cumulative_hits_are_those_of_the_mean(seed):
    rng = np.random.default_rng(seed)
    p = pair([(int(rng.integers(WIDTH)),) for _ in range(5)])
    rows = rng.random((5, len(ALL), WIDTH)).astype(np.float32)
    ranking = rank(head_hits(rows, p))
    assert sorted(ranking) == list(range(len(ALL)))
    found = cumulative_hits(rows, p, ranking)
    for k in range(1, len(ALL) + 1):
        mean = rows[:, ranking[:k]].mean(axis=1, dtype=np.float64)
        assert found[k - 1] == head_hits(mean[:, None], p)[0]


def run(tmp_path, reader, calibration=PAIRS[:3], held_out=PAIRS[3:], name="a", model="a", **shape):
    shape = {"num_layers": LAYERS, "heads": ALL, **shape}
    loaded = Loaded(reader, None, num_heads=HEADS, max_context=100, engine="fake 1", **shape)
    with ResultCache(tmp_path / name) as cache:
        return score(loaded, calibration, held_out, cache, model, top_k=1)


def test_the_right_heads_win(tmp_path):
    reader = FakeReader(PAIRS)
    outcome = run(tmp_path, reader)
    assert len(reader.asked) == len(PAIRS)  # one pass per pair
    assert outcome.rows["predicting"].ranking[0] == (0, 0)
    assert outcome.rows["emitted"].ranking[0] == (1, 2)
    assert outcome.rows["predicting"].matrix.shape == (LAYERS, HEADS)
    assert outcome.rows["predicting"].matrix[0, 0] == outcome.rows["emitted"].matrix[1, 2] == 1
    assert (outcome.calibration, outcome.held_out) == ((3, 8), (2, 3))
    best = outcome.rows["predicting"]
    assert best.head_set.value == 1
    alone = averaged_score(reader, PAIRS[3:], "predicting", ALL)
    assert best.all_heads.value == pytest.approx(alone)
    assert best.gain.value == pytest.approx(1 - alone)
    assert outcome.better_row() == "predicting"  # both are perfect


def test_only_layers_with_attention_are_read_and_the_file_is_a_head_set(tmp_path):
    heads = tuple((layer, head) for layer in (3, 7) for head in range(HEADS))
    outcome = run(tmp_path, FakeReader(PAIRS, heads=heads), num_layers=8, heads=heads)
    found = outcome.rows["predicting"]
    assert found.ranking[0] == (3, 0)
    assert len(found.ranking) == 2 * HEADS
    assert np.isnan(np.delete(found.matrix, (3, 7), axis=0)).all()
    path = tmp_path / "sets" / "hybrid.json"
    about = {"model": "org/model", "revision": None, "direction": "en-de"}
    made = head_set_file.head_set(outcome, "predicting", 2, about, {"tool": "test"})
    head_set_file.write(path, made)
    assert json.loads(path.read_text()) == made
    assert [p.name for p in path.parent.iterdir()] == ["hybrid.json"]
    assert made["ts_matrix"][0] == [None] * HEADS
    assert made["rows"]["emitted"]["heads"][0] == [7, 2]
    assert made["rows"]["emitted"]["head_set"]["low"] <= 1
    read = load_head_set(str(path))
    assert (read.num_layers, read.num_heads, read.row) == (8, HEADS, "predicting")
    assert read.heads[0] == (3, 0)
    read.check("org/model", 8, HEADS, "en-de")


def test_an_interrupted_run_ends_like_any_other(tmp_path):
    everything = [*PAIRS, *map(pair, ([(2,)], [(1,), (3,)], [(0,)], [(3,)]))]
    parts = everything[:7], everything[7:]
    whole = run(tmp_path, FakeReader(everything), *parts, "whole")
    for stop in range(1, 5):
        reader = FakeReader(everything)
        reader.dies_after = stop
        with pytest.raises(CalibrationError, match=r"in a row \(last error: the engine was"):
            run(tmp_path, reader, *parts, str(stop))
        again = FakeReader(everything)
        outcome = run(tmp_path, again, *parts, str(stop))
        assert len(again.asked) == len(everything) - stop
        run(tmp_path, again, *parts, str(stop), model="other")
        assert len(again.asked) == 2 * len(everything) - stop
        assert not outcome.skipped
        for row, found in outcome.rows.items():
            np.testing.assert_array_equal(found.matrix, whole.rows[row].matrix)
            assert found.head_set == whole.rows[row].head_set


def test_pairs_that_the_engine_refuses_are_counted(tmp_path):
    for asked in (5, 1):  # the second time only the refused pair, which may pass now
        reader = FakeReader(PAIRS, broken={1})
        outcome = run(tmp_path, reader)
        assert len(reader.asked) == asked
        assert outcome.skipped == Counter(engine_error=1)
        assert outcome.calibration == (2, 5)
    with pytest.raises(CalibrationError, match="failed on 2 held-out pairs .*: too long for"):
        run(tmp_path, FakeReader(PAIRS, {3, 4}), name="none")


def test_split():
    first, second = split(50, 0.3, 1)
    assert sorted(first + second) == list(range(50))
    assert len(second) == 15
    assert (first, second) == split(50, 0.3, 1) != split(50, 0.3, 2)
    for share in (0.05, 0.95):
        with pytest.raises(CalibrationError, match="add pairs"):
            split(9, share, 1)
