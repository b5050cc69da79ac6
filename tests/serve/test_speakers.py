"""``alignatt serve`` on fake engines: what speakers get."""

import pytest

from tests.serve import live


def lag(service):
    return service.metrics.registry.get_sample_value("alignatt_lag_p95_seconds")


def test_a_talk_is_translated_as_it_is_heard(client, service):
    found = live.speak(client, targets=["de", "zh"], detail="why", live=False)
    ready, *_, end = found
    assert ready["type"] == "ready"
    assert (ready["protocol"], ready["source"], ready["targets"]) == (2, "en", ["de", "zh"])
    assert ready["languages"][1] == {"code": "zh", "name": "Chinese", "spaced": False, "rtl": False}
    assert live.text_of(found) == live.GERMAN
    assert live.text_of(found, "zh") == live.CHINESE
    assert end == {"type": "end", "audio_s": live.WORDS / 2}
    steps = [message["audio_s"] for message in found if message["type"] == "status"]
    assert steps[:3] == [0.85, 1.7, 2.55]  # a file keeps its grid
    assert lag(service) == 0  # and waits on purpose
    early = [m for m in found if m["type"] == "said" and m["audio_s"] < live.WORDS / 2]
    assert len(early) > 6
    for message in early:
        for _, begin, finish, _ in message["units"]:
            assert 0 <= begin <= finish <= message["audio_s"]


@pytest.mark.parametrize(
    ("detail", "more"), [("text", set()), ("words", {"heard"}), ("why", {"heard", "draft"})]
)
def test_each_client_gets_the_detail_that_it_asks_for(client, service, detail, more):
    kinds = {message["type"] for message in live.speak(client, detail=detail)}
    assert kinds == {"ready", "said", "status", "end"} | more
    assert lag(service) > 0


def test_stop_without_audio(client):
    assert [message["type"] for message in live.speak(client, b"")] == ["ready", "status", "end"]
