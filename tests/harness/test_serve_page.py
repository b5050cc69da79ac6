"""The speaker's page and the captions in a real browser, on fake engines.

Debian's Chromium, which ``sh requirements/install-chromium.sh`` installs; not run without it.
"""

from __future__ import annotations

import json

import pytest

from tests.harness import fakes
from tests.harness.browser import PROGRAM, Browser
from tests.harness.live import FakeLoader, Running, german, make_service, wait_until

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium here: sh requirements/install-chromium.sh"
)

WORDS = 9
RECORD = """
window.told = []
const Original = WebSocket
window.WebSocket = class extends Original {
  constructor(...given) {
    super(...given)
    this.addEventListener('message', ({ data }) => told.push(JSON.parse(data)))
  }
}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("audio") / "talk.wav"
    fakes.write_talk(path, fakes.talk(WORDS))
    return path


@pytest.fixture(scope="module")
def browser(recording):
    browser = Browser(microphone=recording)
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _tabs(request):
    yield
    if PROGRAM is not None:
        request.getfixturevalue("browser").close_pages()


@pytest.fixture
def loader():
    return FakeLoader()


@pytest.fixture
def server(tmp_path, loader):
    with Running(make_service(tmp_path, loader, hold_back_ms=600)) as server:
        yield server


@pytest.fixture
def page(browser, server):
    page = browser.open("about:blank#")
    page.command("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
    page.go(f"http://127.0.0.1:{server.port}/?room=talk")
    page.until("!document.getElementById('start').disabled")
    return page


def said(page, code="de"):
    return page.js(
        f"document.querySelector('.said[lang={code}]')?.textContent.replace(/\\s+/g, ' ').trim()"
        " ?? ''"
    )


def press(page, name):
    page.js(f"document.getElementById('{name}').click()")


def play(page, recording):
    """Choose the recording instead of the microphone."""
    page.js("document.querySelector('[value=file]').click()")
    page.choose_file("#file", recording)


def state(page):
    return page.js("document.getElementById('state').textContent")


def test_a_talk_from_the_microphone_to_the_download(page, server, browser):
    page.js("document.querySelector('[value=zh]').click()")
    viewers = [
        browser.open(f"http://127.0.0.1:{server.port}/captions?room=talk&target=de&lines=all")
        for _ in range(2)
    ]
    press(page, "start")
    page.until("document.querySelectorAll('.said span').length > 2")
    assert page.js("document.getElementById('stop').disabled") is False
    assert said(page) in german(WORDS)
    # Why it waits is on the page, and it is what the gate said.
    page.until("told.some(m => m.type === 'draft' && m.reason === 'source-frontier')")
    shown = page.js(
        """(() => {
          const draft = told.findLast(m => m.type === 'draft' && m.target === 'de')
          const heard = told.findLast(m => m.type === 'heard')
          const article = document.querySelector('.said[lang=de]').closest('article')
          const why = article.querySelector('.why')
          return { draft, words: heard.words, why: why.textContent, reason: why.dataset.reason,
            waiting: article.querySelector('.draft').textContent }
        })()"""
    )
    draft = shown["draft"]
    assert shown["reason"] == draft["reason"]
    assert shown["waiting"] == "".join(text for text, *_ in draft["tokens"][draft["said"] :])
    if draft["reason"] == "source-frontier":
        token, place, _ = draft["tokens"][draft["accepted"]]
        assert f"“{token.strip()}”" in shown["why"]
        assert f"“{shown['words'][place][0]}”" in shown["why"]
    page.until(f"told.at(-1).audio_s > {WORDS / 2 - 0.5}")
    press(page, "stop")
    page.until("told.at(-1).type === 'end'")
    whole = said(page)
    assert whole.split()[: WORDS - 1] == german(WORDS).split()[: WORDS - 1]
    assert state(page) == "done"
    chinese = said(page, "zh")
    assert chinese.startswith("字零字一")
    assert " " not in chinese
    for viewer in viewers:
        viewer.until("document.getElementById('lines').textContent.includes('Wort7')")
        assert viewer.js("document.getElementById('lines').textContent.trim()") == whole
        assert viewer.complaints == []
    # The download, read back by the browser's own subtitles.
    page.js(
        """(() => {
          const link = [...document.querySelectorAll('.links a')].find(a => a.textContent === 'VTT')
          const video = document.createElement('video'), track = document.createElement('track')
          track.src = link.href; track.default = true; track.srclang = 'de'
          video.append(track); document.body.append(video); track.track.mode = 'hidden'
          window.track = track
        })()"""
    )
    page.until("track.readyState === 2")
    cues = page.js("[...track.track.cues].map(cue => [cue.startTime, cue.endTime, cue.text])")
    assert " ".join(text for *_, text in cues).split() == whole.split()
    srt = page.js(
        "fetch([...document.querySelectorAll('.links a')].find(a => a.textContent === 'SRT').href)"
        ".then(answer => answer.text())"
    )
    assert srt.startswith("1\n00:00:0")
    # A reload loses nothing.
    page.reload()
    page.until("document.querySelectorAll('.said span').length > 2")
    assert said(page) == whole
    assert page.complaints == []
    here = f"//127.0.0.1:{server.port}/"
    assert all(here in address for address in page.requests if address != "about:blank#")


def test_a_lost_connection_goes_on_with_the_same_talk(page, server, loader, recording):
    play(page, recording)
    press(page, "start")
    page.until("document.querySelectorAll('.said span').length > 1")
    before = said(page)
    loader.kill()  # every connection is closed, and the engines are started again
    page.until("told.filter(m => m.type === 'ready').length === 2")
    assert page.js("told.findLast(m => m.type === 'ready').resumed")
    page.until("told.at(-1).type === 'end'", wait_s=60)
    assert said(page).startswith(before)
    assert len(said(page).split()) > len(before.split())
    assert loader.loads == 2


def test_names_widths_and_keys(page, server, browser, recording):
    play(page, recording)
    for width in (390, 1200):
        page.size(width, 844)
        assert page.js("document.documentElement.scrollWidth") <= width
    nodes = page.command("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"]
        in (
            "button",
            "checkbox",
            "radio",
            "textbox",
            "link",
            "Meter",
            "meter",
            "DisclosureTriangle",
        )
    ]
    assert len(controls) > 8
    assert [node for node in controls if not node["name"]["value"]] == []
    small = page.js(
        """[...document.querySelectorAll('button, label, summary')]
          .filter(item => item.offsetHeight && item.offsetHeight < 44)
          .map(item => item.outerHTML)"""
    )
    assert small == []
    phone = browser.open(f"http://127.0.0.1:{server.port}/captions?room=talk&lines=all")
    phone.size(390, 844)
    press(page, "start")
    phone.until("!!document.querySelector('#languages a')")
    phone.js("document.querySelector('#languages a').click()")
    phone.until("document.getElementById('lines')?.textContent.includes('Wort1') ?? false")
    assert phone.js("document.documentElement.scrollWidth") <= 390
    press(page, "stop")
    page.until("told.at(-1).type === 'end'")
    assert page.complaints == []


def test_a_token_is_asked_for(browser, tmp_path):
    with Running(make_service(tmp_path, token="s3")) as server:
        page = browser.open(f"http://127.0.0.1:{server.port}/")
        page.until("document.getElementById('state').textContent.includes('needs a token')")
        page.go(f"http://127.0.0.1:{server.port}/?token=s3")
        page.until("!document.getElementById('start').disabled")
        assert json.dumps(page.complaints) == "[]"
        wait_until(lambda: server.service.viewers == 0)
