"""A server that is killed (kill -9) continues the talk by its journal, for speaker and viewer."""

import contextlib
import subprocess
import sys
from functools import partial

from alignatt_agent.serve.server import listen
from tests.fakes import agent as fakes
from tests.serve import live

WORDS = 40
DATA = live.pcm(fakes.talk(WORDS))
BYTES_PER_S = 32_000


@contextlib.contextmanager
def killed_server(folder, port):
    """Run a server on fake engines, and kill it."""
    command = [sys.executable, "-m", "lab.tests.fake_server", str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().startswith("http")
        try:
            yield
        finally:
            server.kill()


def test_a_server_that_is_killed_twice_loses_and_doubles_nothing(tmp_path):
    with contextlib.closing(listen("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    came, seen, viewed = [], [], {}
    asked = {"targets": ["de", "zh"], "room": "talk"}
    for upto_s in (3.7, 13.1, WORDS / 2):  # twice within a sentence, then to the end
        ends = upto_s == WORDS / 2
        with killed_server(tmp_path, port), live.RemoteSocket(port) as speaker:
            ready = live.start(speaker, **asked)
            assert ready["resumed"] == bool(viewed)
            viewer, found = live.Viewer(port, **viewed), []
            begin, end = (round(at * BYTES_PER_S) for at in (ready["audio_s"], upto_s))
            live.send(speaker, DATA[begin:end], stop=ends)
            while not found or found[-1]["audio_s"] < upto_s - 1:
                found += live.until(speaker, "end" if ends else "status")
            live.wait_until(partial(viewer.saw, "end" if ends else "said"))
        viewer.join(live.WAIT_S)
        came, seen = came + found, seen + viewer.events
        ids = [message["id"] for message in found if "id" in message]
        asked |= {"session": ready["session"], "kept_s": 0.0, "since": ids[-1]}
        viewed = {"Last-Event-ID": viewer.ids[-1]}
    chinese = "".join(fakes.translated(fakes.word(k), True) for k in range(WORDS))
    for events in (came, seen):
        assert live.text_of(events) == live.german(WORDS)
        assert live.text_of(events, "zh") == chinese
        assert not any(event["type"] == "gap" for event in events)
        said = [m for m in events if m["type"] == "said" and m["target"] == "de"]
        starts = [start for m in said for _, start, *_ in m["units"]]
        assert starts == [k / 2 for k in range(WORDS)]  # times do not shift
