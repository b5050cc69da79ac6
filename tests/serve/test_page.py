"""The speaker's page and the captions in a real browser, on fake engines.

Debian's Chromium, which ``sh requirements/install-chromium.sh`` installs; not run without it.
"""

from __future__ import annotations

import json

import pytest
import webvtt

from tests.fixtures.agents import PAGE_WORDS as WORDS
from tests.serve.browser import PROGRAM
from tests.serve.live import Running, Viewer, german, make_service, text_of, wait_until
from tests.serve.pages import (
    check_clean,
    check_controls,
    check_why,
    check_width,
    download,
    play,
    press,
    said,
    state,
)

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium here: sh requirements/install-chromium.sh"
)


def test_a_talk_from_the_microphone_to_the_download(page, page_server, browser, tmp_path):
    page.js("document.querySelector('[value=zh]').click()")
    viewers = [
        browser.open(f"{page_server.address}captions?room=talk&target=de&lines=all")
        for _ in range(2)
    ]
    press(page, "start")
    page.until("document.querySelectorAll('.said span').length > 2")
    assert page.js("document.getElementById('stop').disabled") is False
    assert said(page) in german(WORDS)
    # Why it waits is on the page, and it is what the gate said.
    page.until("told.some(m => m.type === 'draft' && m.reason === 'source-frontier')")
    check_why(page)
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
    cues = webvtt.from_srt(str(download(page, "srt", tmp_path)))
    assert " ".join(cue.text for cue in cues).split() == whole.split()
    # A reload loses nothing.
    page.reload()
    page.until("document.querySelectorAll('.said span').length > 2")
    assert said(page) == whole
    check_clean(page, page_server.address)


def test_a_lost_connection_goes_on_with_the_same_talk(page, page_server, loader, recording):
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


def test_what_was_said_while_there_was_no_connection_is_not_lost(page, page_server, recording):
    viewer = Viewer(page_server.port)
    play(page, recording)
    press(page, "start")
    page.until("document.querySelectorAll('.said span').length > 1")
    page.js("sockets.at(-1).close()")  # the server says what it has heard, to nobody
    page.until("told.filter(m => m.type === 'ready').length === 2")
    page.until("told.at(-1).type === 'end'", wait_s=60)
    wait_until(lambda: viewer.events[-1]["type"] == "end" and viewer.events[-1]["audio_s"] > 4)
    assert said(page) == text_of(viewer.events)
    assert len(said(page).split()) >= WORDS
    viewer.leave()


def test_names_widths_and_keys(page, page_server, browser, recording):
    play(page, recording)
    for width in (390, 1200):
        check_width(page, width)
    check_controls(page)
    phone = browser.open(f"{page_server.address}captions?room=talk&lines=all")
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
        page = browser.open(f"{server.address}")
        page.until("document.getElementById('state').textContent.includes('needs a token')")
        page.go(f"{server.address}?token=s3")
        page.until("!document.getElementById('start').disabled")
        assert json.dumps(page.complaints) == "[]"
        wait_until(lambda: server.service.viewers == 0)
