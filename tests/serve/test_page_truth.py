"""What the speaker's page says is true: before Start, in a browser's pause, while catching up."""

import re

import pytest

from alignatt_agent.serve.http_handlers import PAGES
from tests.serve.live import Running, make_service
from tests.serve.pages import STAND_IN, check_clean, text, until

TAP = """;{
  const Node = AudioWorkletNode
  window.AudioWorkletNode = class extends Node {
    constructor(...given) { super(...given); window.tap = this }
  }
}"""
STATE = "document.getElementById('state').textContent"


@pytest.fixture
def opened(tabs, page_server):
    """Open the speaker's page whose server is the test, live or not."""

    def opened(query="", live=True, script=""):
        address = page_server.address + query
        page = tabs.open(address, (1280, 800), STAND_IN + script, clock=live)
        if live:
            page.locator("#start:enabled").click()
            until(page, "window.source")
            page.evaluate("tell(READY)")
        return page

    yield opened
    check_clean(tabs, page_server.address)


@pytest.mark.parametrize("room", ["Main Hall", "a/b", "a" * 65, "x!"])
def test_an_invalid_room_in_the_address_is_shown(opened, room):
    page = opened(f"?room={room}", live=False)
    page.get_by_text(f"The room “{room[:80]}” is not possible").wait_for()
    assert page.locator("#room").is_visible()
    assert page.locator("#room").get_attribute("aria-invalid") == "true"
    page.locator("#start:enabled").click()
    assert page.evaluate("document.activeElement.id") == "room"
    assert not page.evaluate("window.source")
    page.locator("#room").fill("hall")
    assert text(page.locator("#notice")) == ""
    page.locator("#start").click()
    until(page, "window.source")


@pytest.mark.parametrize("room", ["Cafe\u0301", "Café", " hall ", "कक्षा"])
def test_rooms_are_compared_as_composed_letters(opened, room):
    page = opened("", live=False)
    page.locator("#start:enabled").wait_for()
    page.locator("#options summary").click()
    page.locator("#room").fill(room)
    page.locator("#start").click()
    until(page, "window.sent.length")
    expected = {"Cafe\u0301": "Café", " hall ": "hall"}.get(room, room)
    assert page.evaluate("JSON.parse(sent[0]).room") == expected


def test_plain_http_is_told_before_start(opened):
    plain = "Object.defineProperty(window, 'isSecureContext', { value: false })"
    page = opened("", live=False, script=plain)
    page.get_by_text("Browsers allow access to the microphone only on HTTPS pages").wait_for()
    page.wait_for_timeout(1200)  # other notices are written twice a second
    assert text(page.locator("#notice")).startswith("Browsers allow access to the microphone")
    assert page.locator("#start").is_disabled()


def test_a_browsers_pause_is_no_silence_of_the_server(opened):
    page = opened()
    page.clock.run_for(300)
    page.evaluate("hide(true); sound.suspend()")
    until(page, "sound.state === 'suspended'")
    page.clock.run_for(500)
    assert page.evaluate(STATE) == "no sound: your speech is not recorded"
    page.clock.run_for(20_000)
    assert page.evaluate(STATE) == "no sound: your speech is not recorded"
    assert "kept" not in page.evaluate("document.body.innerText")


def test_a_frozen_page_does_not_blame_the_server(opened):
    page = opened()
    until(page, "sent.length > 2")
    page.clock.fast_forward(20_000)  # timers fire once at most
    assert page.evaluate(STATE) == "live"


def test_speech_is_said_to_be_kept_only_while_it_is(opened):
    page = opened()
    until(page, "sent.length > 2")
    page.clock.run_for(10_000)
    kept = "your speech is kept on this page and translated later"
    assert kept in page.evaluate(STATE)
    page.evaluate("track.onended()")
    assert kept not in page.evaluate(STATE)
    assert "your speech is not recorded" in page.evaluate(STATE)


def test_nothing_that_was_said_before_the_talk_is_published(opened):
    page = opened("", live=False)
    page.locator("#start:enabled").click()
    until(page, "window.source")
    page.wait_for_timeout(700)  # speech, while the connection is being made
    page.evaluate("source.id = 1")
    page.evaluate("source.onclose({ code: 1006 })")
    page.get_by_text("nothing is recorded yet").wait_for()
    until(page, "source.id !== 1 && (sent.length = 0, tell(READY), true)")
    pieces = "sent.filter(data => typeof data !== 'string').length"
    assert page.evaluate(pieces) <= 6  # of the new connection alone; 12 or more in all


def test_the_delay_counts_what_the_page_has_not_sent(opened):
    page = opened(script=TAP)
    until(page, "sent.length > 3")
    # 40 s of speech are on the page, because the connection was lost for 40 s.
    page.evaluate("source.onclose({ code: 1006 })")
    page.evaluate("""for (let piece = 0; piece < 400; piece++) {
      tap.port.onmessage({ data: { level: 0.5, pcm: new ArrayBuffer(9600) } })
    }""")
    page.clock.run_for(600)
    page.evaluate("tell({ ...READY, resumed: true })")
    page.evaluate("tell({ type: 'status', audio_s: 1, behind_s: 5, step_ms: 500, rtf: 0.5 })")
    seconds = int("".join(filter(str.isdigit, text(page.locator("#lag")))))
    assert 38 <= seconds <= 45


def test_the_level_is_checked_before_start(opened):
    page = opened("", live=False)
    page.locator("#start:enabled").wait_for()
    page.locator("#check").click()
    page.get_by_text("Speak now. Nothing is sent to the server.").wait_for()
    page.get_by_text("Too quiet: move closer or raise the level.").wait_for()
    assert page.evaluate("sent.length") == 0
    page.locator("#check").click()
    assert page.evaluate("track.readyState") == "ended"  # the microphone is closed
    assert text(page.locator("#verdict")) == ""


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "Dieser Server verlangt ein Token"),
        ("?token=x", "Das Token fehlt oder ist falsch"),
        ("?token=v", "mit dem man nicht sprechen darf"),
    ],
)
def test_refusals_are_in_the_readers_language(tabs, tmp_path, query, words):
    german = "Object.defineProperty(navigator, 'languages', { value: ['de-AT'] })"
    with Running(make_service(tmp_path, token="s3", viewer_token="v")) as server:
        page = tabs.open(server.address + query, script=german)
        page.locator("#state.error").wait_for()
        state = text(page.locator("#state"))
        if not query:
            words = "Das Token fehlt oder ist falsch"
        assert words in state
        assert page.locator("#start").is_disabled()
        viewer = tabs.open(f"{server.address}captions?room=talk&target=de&lines=all", script=german)
        viewer.get_by_text("Der Server meldet: Das Token fehlt oder ist falsch").wait_for()


@pytest.mark.parametrize("language", ["de", "it", "fr", "es", "zh"])
def test_every_text_of_the_speakers_page_is_translated(tabs, page_server, language):
    script = f"Object.defineProperty(navigator, 'languages', {{ value: ['{language}'] }})"
    page = tabs.open(page_server.address, script=script)
    page.locator("#start:enabled").wait_for()
    assert page.evaluate("document.documentElement.lang") == language
    same = page.evaluate(
        """async () => {
          const spoken = await import('./pages/words.js')
          const boxes = [...document.querySelectorAll('[data-say]:not(#state)')]
          const right = box => box.textContent && box.textContent === spoken.say(box.dataset.say)
          return boxes.filter(box => !right(box)).map(box => box.dataset.say)
        }"""
    )
    assert same == []
    english = tabs.open(page_server.address)
    english.locator("#start:enabled").wait_for()
    texts = "[...document.querySelectorAll('[data-say]')].map(box => box.textContent)"
    pairs = zip(page.evaluate(texts), english.evaluate(texts), strict=True)
    alike = {here for here, there in pairs if here == there}
    assert alike <= {"live", "Start", "auto"}  # the same words in both languages


def test_every_word_has_six_languages():
    source = (PAGES / "words.js").read_text() + (PAGES / "words_speaker.js").read_text()
    entries = re.findall(r"^  '?([\w-]+)'?: (\[.*\]),$", source, flags=re.M)
    assert len(entries) > 120
    for key, row in entries:
        texts = re.findall(r"'((?:[^'\\]|\\.)*)'", row)
        assert len(texts) == 6, key
        assert all(texts[1:]), key
        assert len({"{}" in words for words in texts if words}) == 1, key
