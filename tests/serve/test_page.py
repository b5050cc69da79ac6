"""The speaker's page and the captions in a real browser, on fake engines.

Debian's Chromium, which ``sh requirements/install-chromium.sh`` installs; not run without it.
"""

from tests.fixtures.agents import PAGE_WORDS as WORDS
from tests.serve import pages
from tests.serve.live import Running, Viewer, german, make_service, text_of, wait_until

CUES = """(() => {
  const link = [...document.querySelectorAll('#save a')].find(a => a.textContent === 'VTT')
  const video = document.createElement('video'), track = document.createElement('track')
  track.src = link.href; track.default = true; track.srclang = 'de'
  video.append(track); document.body.append(video); track.track.mode = 'hidden'
  window.track = track
})()"""
"""Subtitles as the browser itself reads them."""


def test_a_talk_from_the_microphone_to_its_subtitles(page, page_server, tabs):
    page.locator("[name=target][value=zh]").check()
    page.locator("#start").click()
    pages.wait_for_words(page, 2)
    assert page.locator("#stop").is_enabled()
    assert pages.said(page) in german(WORDS)
    pages.until(page, f"told.at(-1).audio_s > {WORDS / 2 - 0.5}")
    page.locator("#stop").click()
    pages.wait_for_end(page)
    whole = pages.said(page)
    assert whole.split()[: WORDS - 1] == german(WORDS).split()[: WORDS - 1]
    assert pages.text(page.locator("#state")) == "done"
    chinese = pages.said(page, "zh")
    assert chinese.startswith("字零字一")
    assert " " not in chinese
    page.evaluate(CUES)
    pages.until(page, "track.readyState === 2")
    cues = page.evaluate("[...track.track.cues].map(cue => cue.text)")
    assert " ".join(cues).split() == whole.split()
    # A reload loses nothing.
    page.reload()
    pages.wait_for_words(page, len(whole.split()) - 1)
    assert pages.said(page) == whole
    assert page.locator("[name=target][value=zh]").is_checked()
    pages.check_clean(tabs, page_server.address)


def test_what_was_said_while_there_was_no_connection_is_not_lost(
    page, page_server, recording, monkeypatch
):
    monkeypatch.setattr("alignatt_agent.serve.wires.own.RETURN_S", 30.0)
    viewer = Viewer(page_server.port)
    pages.play(page, recording)
    page.locator("#start").click()
    pages.wait_for_words(page, 1)
    page.evaluate("sockets.at(-1).close()")  # the server waits with the open sentence
    pages.until(page, "told.filter(m => m.type === 'ready').length === 2")
    pages.wait_for_end(page)
    wait_until(lambda: viewer.events[-1]["type"] == "end" and viewer.events[-1]["audio_s"] > 4)
    whole = pages.said(page)
    assert whole == text_of(viewer.events)
    assert whole.split()[: WORDS - 1] == german(WORDS).split()[: WORDS - 1]
    # Start goes on with the talk, and the page asks before it is left.
    page.locator("#start").click()
    pages.until(page, "told.filter(m => m.type === 'ready').length === 3")
    assert not page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    page.locator("#stop").click()
    pages.wait_for_end(page)
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    assert pages.said(page).startswith(whole)
    viewer.leave()
    # The text is saved without the server; a new talk is asked for.
    page_server.stop()
    with page.expect_download() as found:
        page.locator("#save summary").click()
        page.get_by_role("button", name="Text with times, German").click()
    saved = found.value.path().read_text()
    assert found.value.suggested_filename == "talk.de.txt"
    assert saved.startswith("00:00:00 Wort0 Wort1")
    assert [word for word in saved.split() if word[0] == "W"] == pages.said(page).split()
    page.locator("#new").click()  # refused: dialogs are dismissed
    assert pages.said(page).startswith(whole)
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#new").click()
    assert pages.said(page) == ""


def test_sound_that_the_browser_pauses_is_marked_as_missing(page, page_server):
    page.locator("#start").click()
    pages.wait_for_words(page, 1)
    page.evaluate("hide(true); sound.suspend()")
    page.get_by_text("The browser paused the audio").wait_for()
    page.wait_for_timeout(1500)
    page.evaluate("hide(false)")
    pages.until(page, "told.some(m => m.type === 'gap' && m.end - m.start > 1)")
    pages.until(page, "!document.getElementById('notice').textContent")
    page.locator("#stop").click()
    pages.wait_for_end(page)


def test_a_token_is_asked_for(tabs, tmp_path):
    service = make_service(tmp_path, token="s3", viewer_token="v", address="http://a.example")
    with Running(service) as server:
        page = tabs.open(server.address)
        for query, words in (
            ("", "requires a token"),
            ("?token=x", "wrong token"),
            ("?token=v", "the token for viewers"),
        ):
            page.goto(f"{server.address}{query}")
            page.get_by_text(words).wait_for()
            assert page.locator("#start").is_disabled()
        page.goto(f"{server.address}?token=s3")
        page.locator("#start:enabled").wait_for()
        page.locator("#start").click()
        page.locator("#share summary").click()
        page.locator("#stop").click()
        links = page.evaluate("[...document.querySelectorAll('footer a')].map(a => a.href)")
        assert all("token=v" in link for link in links)
        assert links[0].startswith("http://a.example/captions?room=")
        assert len(links) == 6
        assert page.evaluate("location.search") == ""
        page.reload()
        page.locator("#start:enabled").wait_for()
        pages.check_clean(tabs, server.address)
        page.close()
        wait_until(lambda: server.service.viewers == 0)
