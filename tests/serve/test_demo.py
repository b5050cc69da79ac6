"""`alignatt demo`: talks go into a room in turn, their captions open."""

from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent.serve import demo
from tests.fakes import agent as fakes
from tests.serve.live import Running, german, get, make_service


def test_talks_are_spoken_into_a_room(tmp_path, monkeypatch):
    slept = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=slept.append)
    monkeypatch.setattr(demo, "time", clock)
    monkeypatch.setattr(demo, "TARGETS", ("de",))
    talks = {12: tmp_path / "first.wav", 6: tmp_path / "second.wav"}
    for words, path in talks.items():
        fakes.write_talk(path, fakes.talk(words))
    shown, path = [], "/transcript?room=demo&target=de&format=txt"
    for count in (1, 2):  # the second talk takes the place of the first
        with Running(make_service(tmp_path)) as server:
            demo._play(server.address, list(map(str, talks.values()))[:count])
            shown.append(get(server.port, path)[2].rstrip())
        demo._play(server.address, [str(talks[6])])  # nobody listens any more
    assert shown == [german(12), german(6)]
    assert slept[:60] == pytest.approx(np.arange(0.1, 6.05, 0.1))  # the first talk, in real time


def test_the_address_of_the_page_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(demo, "_play", lambda address, talks: None)

    def serve(argv, begin):
        assert argv == ["--config", "micro-low", "--port", "8090"]
        begin("http://127.0.0.1:8090/")
        return 0

    monkeypatch.setattr("alignatt_agent.serve.cli.main", serve)
    assert demo.main(["--port", "8090"]) == 0
    assert "http://127.0.0.1:8090/captions?room=demo&target=de" in capsys.readouterr().out
