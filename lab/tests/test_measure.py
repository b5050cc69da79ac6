"""Output of ``make measure`` for models whose errors are known."""

from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent.types import SAMPLE_RATE
from alignatt_agent.types.engines import AlignedItem
from lab.micro_world import devset, lexicon
from lab.micro_world.measure_speech import BINS_S, measure, segments


class Speech:
    """Knows the dev set by its audio, guesses a word that is not over wrong, ends with a period.

    Without the names of a talk, it writes them wrong.
    """

    def __init__(self, known):
        self._known = known
        self.asr = self.aligner = self

    def _heard(self, audio):
        segment = next(s for s in self._known if np.array_equal(s.audio[: len(audio)], audio))
        end = len(audio) / SAMPLE_RATE
        return [word for word in segment.words if word.start < end], end

    def transcribe(self, audio, language, context=""):
        words, end = self._heard(audio)
        given = set(context.split())
        texts = []
        for word in words:
            bare = word.text.rstrip(".,")
            wrong = word.end > end or (bare in NAMES and bare not in given)
            texts.append("wrong" if wrong else bare)
        return SimpleNamespace(text=" ".join(texts) + ".")

    def align(self, audio, text, language):
        words, end = self._heard(audio)
        items = zip(text.split(), words, strict=True)
        return [AlignedItem(said, word.start, min(word.end, end) + 0.01) for said, word in items]


NAMES = set(lexicon.NAMES)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devset")
    devset.write(folder, seed=31, least=1)
    return folder, list(segments(folder))


def test_errors_are_found_where_they_are(known):
    folder, found = known
    figures = measure(Speech(found), folder)
    said = [word.text.rstrip(".,") for segment in found for word in segment.words]
    named = sum(word in NAMES for word in said)
    assert named > 0
    assert figures["wer"] == pytest.approx(named / len(said))
    assert figures["wer_with_context"] == 0.0
    assert figures["aligner_mae_ms"] == pytest.approx(10.0, abs=0.1)
    assert figures["false_periods_per_cut"] == 1.0
    # An unfinished word is wrong and ends with the audio; a word that ended earlier is right.
    assert figures["tail_error_0_ms"] > 0.4
    assert figures["tail_error_250_ms"] < 0.1
    assert list(BINS_S) == [0, 250]
