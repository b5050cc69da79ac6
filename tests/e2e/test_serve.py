"""``alignatt serve`` on the embedded models: what it says is what the official harness logs."""

import contextlib
import signal
import threading
from urllib.parse import urlsplit

import pytest
import soundfile
from websockets.exceptions import ConnectionClosed

from tests.e2e.test_http_route import wait_for_the_end_of
from tests.serve import live, pages
from tests.serve.browser import Tabs, chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server process; yields it, its address and its log."""
    log = tmp_path_factory.mktemp("serve") / "log"
    with live.serving(log) as (process, address):
        yield process, address, log


@pytest.fixture(scope="module")
def samples(short_talk) -> bytes:
    return soundfile.read(short_talk.wav, dtype="int16")[0].tobytes()


def emitted(messages, target):
    """What was said, as the tokens of Simulstream."""
    said = (m["units"] for m in messages if m["type"] == "said" and m["target"] == target)
    words = ("".join(unit for unit, *_ in units).split() for units in said)
    return [list("".join(found)) if target == "zh" else found for found in words]


def test_every_target_of_a_stream_says_what_a_direct_run_says(server, driven, samples):
    _, address, _ = server
    with live.RemoteSocket(urlsplit(address).port) as socket:
        live.start(socket, targets=["de", "zh"], live=False, detail="why")
        live.send(socket, samples, stop=True)
        messages = live.until(socket, "end")
    for target in ("de", "zh"):
        direct = [units for units in driven["whole drafts"][target] if units]
        assert emitted(messages, target) == direct
    # The reasons are those of the trace.
    drafts = [m for m in messages if m["type"] == "draft" and m["target"] == "de"]
    told = [(m["tokens"], m["accepted"], m["reason"], m["edge"]) for m in drafts]
    assert [[[text for text, *_ in tokens], *rest] for tokens, *rest in told] == driven["why"]
    assert "source-frontier" in {draft["reason"] for draft in drafts}


HEARD_S = "(told.findLast(m => m.type === 'status')?.audio_s ?? 0)"


@pytest.fixture
def tabs(short_talk):
    """Tabs of a browser whose microphone plays the talk."""
    with chromium(microphone=short_talk.wav) as browser:
        yield Tabs(browser)


def test_a_talk_on_the_page(server, tabs, short_talk):
    """Two viewers follow; half-way the connection is lost; Stop is pressed in mid-sentence."""
    _, address, _ = server
    page = pages.open_page(tabs, address)
    page.locator("[name=target][value=it]").check()
    url = f"{address}captions?room=talk&target=de&lines=all"
    viewers = [tabs.open(url) for _ in range(2)]
    page.locator("#start").click()
    for code in ("de", "it"):
        pages.until(page, f"document.querySelector('.said[lang={code}]')?.textContent.length > 20")
    early = page.evaluate(HEARD_S)
    assert early < short_talk.seconds / 2
    pages.until(page, "document.querySelector('.why').dataset.reason === 'source-frontier'")
    pages.until(page, f"{HEARD_S} >= {short_talk.seconds / 2}")
    before = pages.said(page)
    page.evaluate("sockets.at(-1).close()")
    pages.until(page, "told.filter(m => m.type === 'ready').length === 2")
    assert page.evaluate("told.findLast(m => m.type === 'ready').resumed")
    pages.until(page, "told.at(-1).type === 'status'")
    pages.until(page, f"{HEARD_S} >= {short_talk.seconds - 3}")
    count = "told.filter(m => m.type === 'said' && m.target === 'de').length"
    words = page.evaluate(count)
    page.locator("#stop").click()
    pages.wait_for_end(page)
    assert page.evaluate(count) > words
    closed = "told.findLast(m => m.type === 'heard' && m.closed.length).closed"
    last = page.evaluate(f"{closed}.at(-1).at(-1)")
    ends = "told.filter(m => m.type === 'said').flatMap(m => m.units.map(unit => unit[2]))"
    # The last word that was heard was said. Where Stop cut it, it may begin where it ends.
    assert page.evaluate(f"Math.max(...{ends})") >= last[2], last
    whole = {code: pages.said(page, code) for code in ("de", "it")}
    assert whole["de"].startswith(before)
    for viewer in viewers:
        lines = "document.getElementById('lines').textContent.trim()"
        pages.until(viewer, f"{lines}.length >= {len(whole['de'])}")
        assert pages.text(viewer.locator("#lines")) == whole["de"]
    pages.check_clean(tabs, address)
    assert len(whole["it"].split()) > 20


def test_ctrl_c_says_what_was_heard_and_takes_the_engines_along(server, samples):
    process, address, log = server
    messages = []
    with live.RemoteSocket(urlsplit(address).port) as socket:
        live.start(socket)

        def feed():
            with contextlib.suppress(ConnectionClosed):
                live.send(socket, samples)

        threading.Thread(target=feed, daemon=True).start()
        while len(emitted(messages, "de")) < 2:
            messages += live.until(socket, "said")
        process.send_signal(signal.SIGINT)
        messages += live.until(socket, "error")
    assert messages[-1]["code"] == "closing", log.read_text()[-4000:]
    assert emitted(messages, "de")
    assert process.wait(60) == 0
    wait_for_the_end_of(process.pid)
    assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
