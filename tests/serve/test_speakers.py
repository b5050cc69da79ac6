"""``alignatt serve`` on fake engines: what speakers get."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.engines import EngineLoader
from tests.fakes import agent as fakes
from tests.serve.live import WORDS, german, make_service, pcm, speak, text_of


def test_a_talk_is_translated_as_it_is_heard(client):
    found = speak(client, targets=["de", "zh"], detail="why", live=False)
    ready, *_, end = found
    assert ready["type"] == "ready"
    assert (ready["protocol"], ready["source"], ready["targets"]) == (1, "en", ["de", "zh"])
    assert ready["languages"][1] == {"code": "zh", "name": "Chinese", "spaced": False, "rtl": False}
    assert text_of(found) == german(WORDS)
    chinese = [fakes.translated(fakes.word(k), True) for k in range(WORDS)]
    assert text_of(found, "zh") == "".join(chinese)
    assert end == {"type": "end", "audio_s": WORDS / 2}
    steps = [message["audio_s"] for message in found if message["type"] == "status"]
    assert steps[:3] == [0.85, 1.7, 2.55]  # a file keeps its grid
    early = [m for m in found if m["type"] == "said" and m["audio_s"] < WORDS / 2]
    assert len(early) > 6
    for message in early:
        for _, begin, finish in message["units"]:
            assert 0 <= begin <= finish <= message["audio_s"]


def test_the_configured_recogniser_is_started(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "alignatt_agent.cascade.loading.load_engines", lambda *given: asked.append(given)
    )
    monkeypatch.setattr("alignatt_agent.serve.engines.check_requests", lambda resolved: None)
    path = fakes.write_config(tmp_path, speech={"recognizer": "whisper"})
    EngineLoader().load(resolve(load_config(str(path)), ["de"]))
    ((_, heads, recognizer),) = asked
    assert heads
    assert recognizer == "whisper"


def test_the_page_can_tell_why_it_waits(tmp_path):
    with TestClient(create_app(make_service(tmp_path, hold_back_ms=600))) as client:
        found = speak(client, detail="why", live=False)
    heard = [message for message in found if message["type"] == "heard"]
    first = next(message for message in heard if message["words"])
    assert first["words"][0] == ["word0", 0.0, 0.5, "new"]
    assert 0 < first["accessible"] <= len(first["words"])
    assert {word[3] for message in heard for word in message["words"]} <= {
        *("settled", "stable", "new")
    }
    drafts = [message for message in found if message["type"] == "draft"]
    waiting = [draft for draft in drafts if draft["reason"] == "source-frontier"]
    assert waiting
    for draft in waiting:
        place = draft["tokens"][draft["accepted"]][1]
        assert place >= draft["edge"]
        assert 0 <= draft["said"] <= draft["accepted"]


@pytest.mark.parametrize(
    ("detail", "kinds"),
    [
        ("text", {"ready", "said", "status", "end"}),
        ("words", {"ready", "said", "status", "end", "heard"}),
        ("why", {"ready", "said", "status", "end", "heard", "draft"}),
    ],
)
def test_each_client_gets_the_detail_that_it_asks_for(client, detail, kinds):
    assert {message["type"] for message in speak(client, detail=detail)} == kinds


def test_captions_of_the_speech_itself(client):
    found = speak(client, targets=["English", "German"])
    assert text_of(found, "en") == " ".join(map(fakes.word, range(WORDS)))
    assert text_of(found) == german(WORDS)


def test_any_sampling_rate_will_do(client):
    found = speak(client, pcm(np.repeat(fakes.talk(WORDS), 3)), sample_rate=48_000)
    assert text_of(found) == german(WORDS)
    assert abs(found[-1]["audio_s"] - WORDS / 2) < 0.01


def test_stop_without_audio(client):
    assert [message["type"] for message in speak(client, b"")] == ["ready", "status", "end"]
