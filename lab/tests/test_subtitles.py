"""Figures of subtitles."""

from __future__ import annotations

import pytest

from alignatt_agent.live.subtitles import Said
from alignatt_agent.types import SourceSpan
from lab.subtitles import measure


def test_figures_of_a_talk_that_is_too_fast():
    texts = "Heute kommt niemand, der es verstehen will. " * 3
    words = [Said(w, SourceSpan(k / 5, k / 5 + 0.2), 0) for k, w in enumerate(texts.split())]
    found = measure([words, words], spaced=True)
    assert found["cues"] % 2 == 0
    assert found["fastest_talk"] == pytest.approx(len(texts) / (len(words) / 5), rel=0.01)
    assert found["speed"]["largest"] >= found["speed"]["p95"] > found["limit"] == 17
    assert found["above"] > 0 == found["above_in_slow_talks"]
    assert found["started"] == 0
    assert 0 < found["off_s"]["mean"] <= found["off_s"]["largest"]
