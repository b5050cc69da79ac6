"""One draft taken apart."""

import numpy as np
import pytest

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.policy import AlignAtt, HoldN
from alignatt_agent.types import AttentionRows, Draft, Prompt, StopReason
from alignatt_agent.types.engines import Readout
from lab.explain.__main__ import main
from lab.explain.reconstruction import explain
from tests.fakes.models import PieceTokenizer, Prompts, ScriptedEngine

SOURCE = ["We", "train", "large", "models."]
PIECES = ("Wir", " große", " Mo", "delle", " trainieren", ".")
PEAKS = (0, 2, 3, 3, 1, 3)  # source tokens; train is token 1, models is tokens 3 and 4


class Tokenizer(PieceTokenizer):
    def __call__(self, text, **_):
        return {"input_ids": list(self.ids(text))}


class Builder(Prompts):
    def build(self, words, accepted=(), history=()):
        assert list(words) == SOURCE
        return Prompt((50, 51, 1, 2, 3, 4, 5, 52, *accepted), 2, (0, 1, 2, 3, 3))


def explained(policy=None, **gate):
    """Two heads with a peak of .6 and .2 elsewhere on the source; the rest is prompt and suffix."""
    tokenizer = Tokenizer()
    source = np.zeros((len(PEAKS), 2, 5), np.float32)
    for token, peak in enumerate(PEAKS):
        source[token, :, peak] = 0.6
        source[token, :, (peak + 1) % 5] = 0.2
    other = np.full((len(PEAKS), 2), 0.15, np.float32)
    rows = AttentionRows(source, other, other / 3)
    engine = ScriptedEngine([Draft(tokenizer.ids(*PIECES), True, rows)])
    plain = {"border_margin": 0, "normalize": "none", "median_width": 1}
    asked = Readout(((0, 0), (1, 1)), "predicting"), policy or AlignAtt(**{**plain, **gate})
    return explain(engine, tokenizer, Builder(), *asked, SOURCE, 3)


def test_a_draft_is_taken_apart():
    found = explained()
    assert found.tokens == PIECES
    assert (found.gated.decision.accepted, found.gated.emitted) == (2, 2)
    assert found.gated.decision.reason is StopReason.SOURCE_FRONTIER
    assert [word.text for word in found.words] == ["Wir", "große", "Modelle", "trainieren."]
    assert [word.peak for word in found.words] == [0, 2, 3, None]
    assert (found.accessible, found.gated.edge) == (3, 3)
    assert [word.provenance.sum() for word in found.words] == pytest.approx([1] * 4)
    np.testing.assert_allclose(found.words[0].provenance, [0.8, 0, 0.15, 0.05], atol=1e-6)
    # Both tokens of "models" count for that word, and both tokens of "Modelle" for theirs.
    np.testing.assert_allclose(found.words[2].provenance, [0, 0.8, 0.15, 0.05], atol=1e-6)


def test_an_unfinished_word_is_accepted_and_not_emitted():
    found = explained(border_margin=1, tau_argmax=0.1)
    assert found.gated.decision.accepted == len(PIECES)
    gated = explained(policy=HoldN()).gated
    assert 3 < gated.emitted <= gated.decision.accepted < len(PIECES)


def test_a_margin_moves_the_limit():
    # With 1, the second token of "models" is still closed.
    assert [explained(border_margin=margin).gated.edge for margin in (-1, 1, 2)] == [2, 3, 4]


@pytest.mark.parametrize("accessible", ["0", "5"])
def test_as_many_accessible_words_as_a_draft_needs(accessible):
    command = [" ".join(SOURCE), "--config", "micro-low", "--target", "de"]
    with pytest.raises(ConfigError, match=f"--accessible {accessible}: expected 1 to 4 words"):
        main([*command, "--accessible", accessible])


def test_one_draft_is_explained(capsys):
    text = "We have trained the large model that our students should compare."
    command = [text, "--config", "micro-low", "--target", "de"]
    command += ["--accessible", "7", "--set", "policy.border_margin=0", "--prefix", "Wir haben"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "Wir haben > das große" in out
    assert "source-frontier" in out
    words = [line.split()[:2] for line in out.splitlines() if line.endswith("%")]
    assert words[:2] == [["das", "the"], ["große", "large"]]
