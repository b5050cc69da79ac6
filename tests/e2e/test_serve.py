"""``alignatt serve`` on the embedded models: what it says is what the official harness logs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import wave
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.e2e.conftest import ROOT
from tests.e2e.page_talk import follow
from tests.e2e.test_http_route import BIN, wait_for_the_end_of
from tests.serve.browser import PROGRAM, Browser

PIECE = 3200


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server process; yields it and its address."""
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [str(BIN / "alignatt"), "serve", "--config", "micro-low", "--port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        for line in process.stdout:
            if found := re.match(r"http(://\S+)/ translates en into de, it, zh", line):
                yield process, f"ws{found.group(1)}", log
                break
        else:
            pytest.fail(log.read_text()[-4000:])
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def samples(path: Path) -> bytes:
    with wave.open(str(path)) as stream:
        return stream.readframes(stream.getnframes())


def said(messages, target):
    return [
        [unit for unit, *_ in message["units"]]
        for message in messages
        if message["type"] == "said" and message["target"] == target
    ]


def test_every_target_of_a_stream_says_what_a_direct_run_says(server, driven, short_talk):
    _, address, _ = server
    data = samples(short_talk.wav)
    with connect(f"{address}/ws", proxy=None) as socket:
        start = {"type": "start", "targets": ["de", "zh"], "live": False, "detail": "why"}
        socket.send(json.dumps(start))
        for begin in range(0, len(data), PIECE):
            socket.send(data[begin : begin + PIECE])
        socket.send('{"type": "stop"}')
        messages = [json.loads(text) for text in socket]
    assert messages[-1]["type"] == "end"
    for target in ("de", "zh"):
        direct = [units for units in driven["whole drafts"][target] if units]
        assert said(messages, target) == direct
    # The reasons are those of the trace.
    drafts = [m for m in messages if m["type"] == "draft" and m["target"] == "de"]
    told = [(m["tokens"], m["accepted"], m["reason"], m["edge"]) for m in drafts]
    assert [[[text for text, *_ in tokens], *rest] for tokens, *rest in told] == driven["why"]
    assert "source-frontier" in {draft["reason"] for draft in drafts}


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium here: sh requirements/install-chromium.sh")
def test_a_talk_on_the_page(server, short_talk, tmp_path):
    _, address, _ = server
    browser = Browser(microphone=short_talk.wav)
    try:
        page = f"http{address.removeprefix('ws')}/"
        seen = follow(browser, page, short_talk.seconds, tmp_path)
    finally:
        browser.close()
    assert len(seen["it"].split()) > 20


def test_ctrl_c_says_what_was_heard_and_takes_the_engines_along(server, short_talk):
    process, address, log = server
    data = samples(short_talk.wav)
    messages = []
    with connect(f"{address}/ws", proxy=None) as socket:
        socket.send(json.dumps({"type": "start", "targets": ["de"]}))

        def feed():
            with contextlib.suppress(ConnectionClosed):
                for begin in range(0, len(data), PIECE):
                    socket.send(data[begin : begin + PIECE])

        threading.Thread(target=feed, daemon=True).start()
        with contextlib.suppress(ConnectionClosed):  # 1001: the server goes
            for text in socket:
                messages.append(json.loads(text))
                if messages[-1]["type"] == "said" and len(said(messages, "de")) == 2:
                    process.send_signal(signal.SIGINT)
    assert messages[-1]["code"] == "closing", log.read_text()[-4000:]
    assert said(messages, "de")
    assert process.wait(60) == 0
    wait_for_the_end_of(process.pid)
    assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
