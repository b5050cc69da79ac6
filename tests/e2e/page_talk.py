"""A talk on the page of a live server, in a browser: ``page_talk.py ADDRESS RECORDING``.

The browser's microphone plays the recording, 16 kHz mono, and two viewers look on. Half-way the
connection is lost; Stop is pressed while the speaker still speaks.
"""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.request
import wave
from collections import Counter
from pathlib import Path

import webvtt

from tests.serve.browser import Browser
from tests.serve.pages import (
    check_clean,
    check_controls,
    check_why,
    check_width,
    download,
    open_page,
    press,
    said,
)

HEARD_S = "(told.findLast(m => m.type === 'status')?.audio_s ?? 0)"


def follow(browser: Browser, address: str, seconds: float, folder: Path) -> dict[str, object]:
    """Play a talk of so many seconds, and look at everything; returns what was seen."""
    page = open_page(browser, address)
    page.js("document.querySelector('[value=it]').click()")
    url = f"{address}captions?room=talk&target=de&lines=all"
    viewers = [browser.open(url) for _ in range(2)]
    press(page, "start")
    for code in ("de", "it"):
        page.until(f"(document.querySelector('.said[lang={code}]')?.textContent ?? '').length > 20")
    early = page.js(HEARD_S)
    assert early < seconds / 2
    reasons = watch(page, seconds / 2)
    before = said(page)
    page.js("sockets.at(-1).close()")
    page.until("told.filter(m => m.type === 'ready').length === 2")
    assert page.js("told.findLast(m => m.type === 'ready').resumed")
    page.until("told.at(-1).type === 'status'")
    reasons += watch(page, seconds - 3)
    words = page.js("told.filter(m => m.type === 'said' && m.target === 'de').length")
    press(page, "stop")
    page.until("told.at(-1).type === 'end'", wait_s=60)
    assert page.js("told.filter(m => m.type === 'said' && m.target === 'de').length") > words
    last = page.js("told.findLast(m => m.type === 'heard' && m.closed.length).closed.at(-1).at(-1)")
    ends = "told.filter(m => m.type === 'said').flatMap(m => m.units.map(unit => unit[2]))"
    # The last word that was heard was said. Where Stop cut it, it may begin where it ends.
    assert page.js(f"Math.max(...{ends})") >= last[2], last
    assert reasons["source-frontier"] > 3
    whole = {code: said(page, code) for code in ("de", "it")}
    assert whole["de"].startswith(before)
    for code, text in whole.items():
        query = f"transcript?room=talk&target={code}&format=txt"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address + query) as answer:
            assert answer.read().decode().split() == text.split()
        cues = webvtt.from_srt(str(download(page, "srt", folder, code)))
        assert " ".join(cue.text for cue in cues).split() == text.split()
    for viewer in viewers:
        lines = "document.getElementById('lines').textContent.trim()"
        viewer.until(f"{lines}.length >= {len(whole['de'])}")
        assert viewer.js(lines) == whole["de"]
        check_clean(viewer, address)
    for width in (390, 1200):
        check_width(page, width)
        check_width(viewers[0], width)
    check_controls(page)
    page.reload()
    page.until(f"document.querySelectorAll('.said span').length >= {len(whole['de'].split())}")
    assert {code: said(page, code) for code in whole} == whole
    check_clean(page, address)
    return {"first_words_at_s": early, "reasons": dict(reasons), **whole}


def watch(page, until_s: float) -> Counter[str]:
    """Compare what is shown with what was told, until so much was heard; returns the reasons."""
    reasons: Counter[str] = Counter()
    while page.js(HEARD_S) < until_s:
        reasons[check_why(page)] += 1
        time.sleep(0.2)
    return reasons


def main() -> None:
    """Play a recording and print what was seen."""
    address, recording = sys.argv[1:]
    with wave.open(recording) as stream:
        seconds = stream.getnframes() / stream.getframerate()
    browser = Browser(microphone=Path(recording).resolve())
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(follow(browser, address, seconds, Path(folder)))
    finally:
        browser.close()


if __name__ == "__main__":
    main()
