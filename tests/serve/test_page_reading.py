"""What people read on the pages, and that they can: the server is played by the test."""

import itertools
import re
import time

import pytest

from alignatt_agent.serve.http_handlers import PAGES
from tests.serve.live import Running, make_service, speak
from tests.serve.pages import STAND_IN, WAIT_S, check_clean, text, until

LONG = " ".join(
    "Heute bauen wir eine Brücke aus Holz über den Fluss am alten Haus." for _ in range(40)
)
BOXES = [("", "#said"), ("captions?room=talk&target=de&lines=all", "#lines")]
BEHIND = """(() => {{
  const box = document.querySelector('{}')
  return box.scrollHeight - box.scrollTop - box.clientHeight
}})()"""


@pytest.fixture
def opened(tabs, page_server):
    """Open a page whose server is the test: address, and size of the window."""

    def opened(address, size=(390, 844), clock=False):
        page = tabs.open(page_server.address + address, size, STAND_IN, clock)
        if not address:
            page.locator("#start:enabled").click()
        until(page, "window.source")
        page.evaluate("tell(READY)")
        return page

    yield opened
    check_clean(tabs, page_server.address)


@pytest.mark.parametrize(("address", "box"), BOXES)
def test_following_stops_by_hand_alone_and_comes_back(opened, address, box):
    page, behind = opened(address), BEHIND.format(box)
    page.evaluate(f"say({LONG!r})")
    until(page, f"{behind} < 8")
    for _ in range(2):
        page.locator("#larger").click()
        until(page, f"{behind} < 8")
    for size in ((844, 390), (320, 256)):
        page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        page.evaluate("say('mehr Text')")
        until(page, f"{behind} < 8")
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, f"{behind} < 8")
    page.locator(box).hover()
    page.mouse.wheel(0, -500)
    until(page, f"{behind} > 300")
    back = page.locator(".back:visible")
    back.wait_for()
    before = page.evaluate(f"document.querySelector('{box}').scrollTop")
    page.evaluate("say('noch mehr Text')")
    page.wait_for_timeout(100)
    assert page.evaluate(f"document.querySelector('{box}').scrollTop") == before
    back.click()
    until(page, f"{behind} < 8")
    assert back.count() == 0


def test_the_speakers_page_is_text_while_live(opened):
    page = opened("", size=(390, 844))
    assert page.evaluate("document.activeElement.id") == "stop"
    page.evaluate("tell({ type: 'heard', closed: [[['One.', 0, 1]]], words: [], accessible: 0 })")
    page.evaluate(f"say({LONG!r})")
    assert page.evaluate("document.querySelector('#said').getBoundingClientRect().top") < 330
    assert page.evaluate("document.querySelector('#said').clientHeight") > 400
    assert page.evaluate("getComputedStyle(document.querySelector('.said')).fontSize") == "28px"
    assert page.locator("#targets").is_hidden()
    assert page.locator("#context").is_hidden()
    # What was heard stays, and hours have a name.
    assert text(page.locator("#past")) == "One."
    page.evaluate("tell({ type: 'status', audio_s: 3905, behind_s: 0, rtf: 0.5 })")
    assert text(page.locator("#clock")) == "1:05:05"
    # The lock of the screen is taken again after the page was hidden.
    until(page, "locks === 1")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    until(page, "locks === 2")
    page.evaluate("tell({ type: 'end' })")
    page.evaluate("source.onclose({ code: 1000 })")
    assert page.locator("#targets").is_hidden()
    assert text(page.locator("button:focus")) == "Continue this talk"


TOKENS = [["Er", 0, 1], [" hat", 1, 1], [" ge", 3, 0.4], ["schrieben", 3, 0.4], [".", 3, 0.4]]
WORDS = [[f" {word}", k, k + 1, "stable"] for k, word in enumerate(["He", "has", "now", "written"])]
REASONS = {
    "source-frontier": "waiting until “written” is certain",
    "argmax-mass-weak": "not sure yet which word “geschrieben” translates",
    "provenance-weak": "waiting for more speech before “geschrieben”",
    "held-back": "waiting a few words, in case the sentence changes",
    "disagreement": "not sure yet: the previous draft was different",
    "unsure": "not sure of “geschrieben” yet",
    "draft-end": "up to date with the speech",
}


def draft(reason, accepted=2, target="de", edge=3):
    found = {"type": "draft", "target": target, "tokens": TOKENS, "said": 0, "reason": reason}
    return found | {"accepted": accepted, "edge": edge}


def heard(accessible=3):
    return {"type": "heard", "closed": [], "words": WORDS, "accessible": accessible}


def test_reasons_stay_and_say_whole_words(opened):
    page = opened("", clock=True)
    page.evaluate("m => tell(m)", heard())
    why = page.locator(".why")
    for reason, expected in REASONS.items():
        page.evaluate("m => tell(m)", draft(reason))
        page.clock.run_for(1700)
        assert text(why) == expected
    page.evaluate("m => tell(m)", heard(accessible=4))
    page.evaluate("m => tell(m)", draft("source-frontier"))
    page.clock.run_for(1700)
    assert text(why) == "waiting for the words after “written”"
    page.evaluate("m => tell(m)", draft("source-frontier") | {"said": 1})
    assert text(page.locator(".draft")) == "hat geschrieben."
    page.evaluate("m => tell(m)", heard() | {"words": []})  # said to its end, or taken back
    assert text(page.locator(".draft")) == ""
    page.evaluate("m => tell(m)", heard())
    # Five reasons a second: each that is shown stays for 1.5 s.
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 2)
    shown = []
    for step in range(40):
        page.evaluate("m => tell(m)", draft(list(REASONS)[step % 7]))
        page.clock.run_for(200)
        shown.append(text(why))
    changes = [k for k in range(1, 40) if shown[k] != shown[k - 1]]
    assert len(changes) > 2
    assert min(b - a for a, b in itertools.pairwise(changes)) >= 8


def test_each_mark_means_one_thing_and_names_its_language(opened):
    page = opened("")
    page.evaluate("tell({ ...READY, targets: ['de', 'zh'], resumed: true })")
    page.evaluate("m => tell(...m)", [heard(), draft("source-frontier")])
    page.evaluate("m => tell(...m)", [draft("source-frontier", accepted=0, target="zh", edge=0)])
    marks = (
        "[...document.querySelectorAll('#open mark')].map(m => m.textContent + m.dataset.waiting)"
    )
    until(page, f"{marks}.join() === 'Hezh,writtende'")
    assert page.locator("#open .edge").first.is_hidden()
    page.locator("#more summary").click()
    page.locator("#details").check()
    page.get_by_text("“ge” attends to “written” (word 4, gate’s edge after 3)").wait_for()
    assert page.locator("#open .edge").all_text_contents() == ["▏zh", "▏de"]


def test_a_silent_and_an_unplugged_microphone_are_told(opened):
    page = opened("", clock=True)
    notice = page.locator("#notice")
    assert text(notice) == ""
    before, deadline = page.evaluate("sent.length"), time.monotonic() + WAIT_S
    while page.evaluate("sent.length") < before + 2:  # sound is there, and is sent
        assert time.monotonic() < deadline
        page.clock.run_for(100)
    page.clock.run_for(11_000)
    assert text(notice).startswith("No speech for 10 s.")
    assert text(page.locator("#state")).startswith("The server has not answered for ")
    page.evaluate("track.onended()")
    assert text(notice).startswith("The microphone was unplugged.")
    before = page.evaluate("sent.length")
    page.clock.run_for(1000)  # time goes on, in silence
    assert page.evaluate("sent.length") >= before + 9
    page.locator("#device").select_option("default microphone")
    page.evaluate("document.getElementById('device').onchange()")
    until(page, "document.getElementById('notice').textContent === ''")


LINES = """(() => [...document.querySelectorAll('#text div')].flatMap(line => {
  const range = document.createRange(), node = line.firstChild, found = []
  for (const match of node.data.matchAll(/\\S+/g)) {
    range.setStart(node, match.index)
    range.setEnd(node, match.index + match[0].length)
    found.push([match[0], Math.round(range.getBoundingClientRect().left)])
  }
  return found
}))()"""
"""The words of the captions over a picture, and where they begin."""


@pytest.mark.parametrize("query", ["", "&lines=3&size=4"])
def test_no_word_of_captions_moves_sideways(opened, query):
    page = opened(f"captions?room=talk&target=de{query}", size=(1280, 300))
    places = {}
    for number in range(200):
        page.evaluate(f"say('{'Donaudampfschifffahrt'[: 2 + number % 17]}~{number}')")
        if number % 5 == 0:
            for word, left in page.evaluate(LINES):
                assert places.setdefault(word, left) == left
    assert len(places) > 100
    lines = page.locator("#text div")
    assert lines.count() == (3 if query else 2)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"


UNITS = re.findall(r" ?(?:[!-~]+|.)", "2026年使用 Forced Aligner 模型，训练 3.5 小时。好。吗？")


@pytest.mark.parametrize("rows", ["all", "2"])
def test_pages_append_what_the_server_sends(opened, rows):
    page = opened(f"captions?room=talk&target=zh&lines={rows}", size=(240, 400))
    said = [[unit, k, k + 1, k in (0, 15, 17)] for k, unit in enumerate(UNITS)]
    page.evaluate("units => tell({ type: 'said', target: 'zh', units })", said)
    lines = [line.strip() for line in page.locator("#text p, #text div").all_text_contents()]
    if rows == "all":
        assert "".join(lines) == "".join(UNITS)
        assert page.locator("#spoken p").all_text_contents() == ["".join(UNITS[:15]), "好。"]
        page.evaluate("tell({ type: 'end' })")
        assert page.locator("#spoken p").last.text_content() == "吗？"
    else:
        assert len(lines) == 2
        assert all(line in "".join(UNITS) for line in lines)
        assert not any(line[0] in "，。？" for line in lines)


def test_viewers_read_everything_in_paragraphs_and_choose(opened):
    page = opened("captions?room=talk", clock=True)
    languages = page.locator("#languages a")
    assert languages.all_text_contents() == ["Deutsch", "中文"]
    languages.first.click()
    until(page, "window.source")
    page.evaluate("tell(READY)")
    for _ in range(20):
        page.evaluate(f"say({LONG!r})")
    until(page, f"document.getElementById('text').textContent.length > {19 * len(LONG)}")
    paragraphs = page.locator("#text p")
    assert paragraphs.count() > 50
    assert all(item.strip().endswith(".") for item in paragraphs.all_text_contents())
    assert text(page.locator("[aria-current]")) == "Deutsch"
    assert text(page.locator("#state")) == "live"
    page.evaluate("tell({ type: 'error', code: 'engine', final: false })")
    until(page, "document.getElementById('state').textContent === 'interrupted'")
    page.evaluate("tell({ type: 'end' })")
    until(page, "document.getElementById('state').textContent === 'paused'")
    page.clock.fast_forward(601_000)
    until(page, "document.getElementById('state').textContent === 'over'")
    page.evaluate("source.onerror()")
    page.get_by_text("no connection; trying again").wait_for()
    with page.expect_download() as found:
        page.locator("#save").click()
    assert found.value.suggested_filename == "talk.de.txt"
    # A tab that nobody sees gives its connection up, and misses nothing.
    for hidden in ("true", "false"):
        page.evaluate(f"hide({hidden})")
        assert page.evaluate("!!source.closed") == (hidden == "true")
    assert page.evaluate("new URL(source.url).searchParams.get('since')") == "talk.23"
    page.locator("footer summary").click()
    page.locator("#theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 26)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_readers_get_their_own_words_and_captions_as_late_as_their_video(tabs, page_server):
    french = "Object.defineProperty(navigator, 'languages', { value: ['fr-CH', 'en'] })"
    url = f"{page_server.address}captions?room=talk&lines=all&delay=30"
    page = tabs.open(f"{url}&target=de", script=STAND_IN + french, clock=True)
    until(page, "window.source")
    page.evaluate("tell({ ...READY, title: 'Ein Vortrag' }); say('Guten Tag. Wir')")
    page.clock.run_for(25_000)
    assert text(page.locator("#notice")).startswith("Personne n’a encore parlé ici.")
    page.clock.run_for(6_000)
    until(page, "document.getElementById('text').textContent === ' Guten Tag. Wir'")
    assert text(page.locator("h1, #state")) == "Ein Vortrag en direct"
    assert page.evaluate("[document.title, document.documentElement.lang]") == ["Ein Vortrag", "fr"]
    assert page.evaluate("[...CSS.highlights.get('now')].join()") == " Wir"
    page.goto(f"{page_server.address}captions")
    page.get_by_text("Quelle salle").wait_for()
    page.locator("#which input").fill("hall")
    page.keyboard.press("Enter")
    until(page, "new URLSearchParams(location.search).get('room') === 'hall'")


def test_the_overlay_is_at_the_bottom_clears_and_runs_in_old_browsers(opened):
    page = opened("captions?room=talk&target=de", size=(1280, 800), clock=True)
    page.evaluate("say('Guten Tag.')")
    until(page, "document.getElementById('text').getBoundingClientRect().bottom > 780")
    page.evaluate("tell({ type: 'end' })")
    page.clock.run_for(9_000)
    until(page, "!document.getElementById('lines').offsetHeight")
    for name in ["overlay.js", "lines.js", "watch.js", "feed.js", "overlay.css"]:
        # Chromium 75 of OBS has none of these.
        new = r"[?][?]|[?][.]|replaceChildren|[.]at[(]|[^.]min[(]|:has|: end"
        assert not re.search(new, (PAGES / name).read_text())


def test_a_page_without_https_says_how_to_get_sound(tabs, page_server):
    plain = "Object.defineProperty(window, 'isSecureContext', { value: false })"
    page = tabs.open(page_server.address, script=plain)
    page.get_by_text("Browsers allow access to the microphone only on HTTPS pages").wait_for()


def test_seven_tabs_do_not_keep_the_first_from_working(tabs, page_server):
    url = f"{page_server.address}captions?room=talk&target=de&lines=all"
    pages = [tabs.open(url) for _ in range(7)]
    speak(page_server, room="talk")
    for tab in pages:
        tab.get_by_text("Wort13").first.wait_for()
    assert page_server.service.viewers == 1
    tabs.open(page_server.address).locator("#start:enabled").wait_for()
    check_clean(tabs, page_server.address)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("room=talk&token=wrong", "wrong token: check"),
        ("room=!&token=s3", "a room name must consist of 1 to 64 letters"),
        ("room=talk&token=s3", "limit of 0 viewers reached: try again later"),
    ],
)
def test_viewers_are_told_what_is_wrong(tabs, tmp_path, query, why):
    with Running(make_service(tmp_path, token="s3", max_viewers=0)) as server:
        page = tabs.open(f"{server.address}captions?target=de&lines=all&{query}")
        page.get_by_text(why).wait_for()
