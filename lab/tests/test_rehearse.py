"""Two real configurations on stand-ins and real engines: an embedded recognizer, and Whisper."""

from __future__ import annotations

import pytest

from alignatt_agent.config.agent_config import load_config
from lab.stand_ins.__main__ import run, talk


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rehearsal")
    # The second one hears with Whisper: only its engine and the translation's start anew.
    whisper = load_config("whisper-low")
    other = load_config("hy-mt-1.8b-low", {"speech.recognizer": "whisper"})
    models = other.models.model_copy(update={"asr": whisper.models.asr})
    path = folder / "hy-mt-whisper.yaml"
    path.write_text(other.model_copy(update={"models": models}).to_yaml(), encoding="utf-8")
    return list(run(["milmmt46-low", str(path)], talk(3.0), folder))


def test_two_configurations_run_on_published_shapes_and_rows_are_exact(rehearsed):
    assert [item.problems for item in rehearsed] == [[]] * len(rehearsed)
    found = [(item.model, item.target) for item in rehearsed]
    assert found == [
        *(("MiLMMT-46-4B-v0.1", target) for target in ("de", "it", "zh", "fr")),
        *(("HY-MT1.5-1.8B", target) for target in ("de", "zh")),
    ]
    for item in rehearsed:
        assert item.tokens
        gated = item.name == "milmmt46-low"
        assert (item.drafts_with_rows > 0) == gated
        assert (item.largest is not None and item.largest <= 1e-4) == gated
