"""Where things are on the pages: the text keeps half of the window, and nothing is hidden."""

import pytest

from tests.serve.pages import STAND_IN, check_clean, said, text, until, violations

WINDOWS = {"desktop": (1280, 800), "phone": (390, 844), "turned": (844, 390)}
ZOOMED = (320, 256)  # CSS pixels of a window of 1280 x 1024 at 400 % zoom
TALK = " ".join(f"Das ist der Satz {number} von dreißig." for number in range(30))
SHARE_OF_WINDOW = """box => {
  const { width, height } = document.querySelector(box).getBoundingClientRect()
  return [width / innerWidth, height / innerHeight]
}"""
OVERLAPS = """box => {
  const rectangle = document.querySelector(box).getBoundingClientRect()
  const others = [...document.querySelectorAll('#state, #notice, #meta, #buttons, #from')]
  return others.filter(other => {
    const place = other.getBoundingClientRect()
    return !other.matches(box) && place.width && place.left < rectangle.right
      && place.right > rectangle.left && place.top < rectangle.bottom
      && place.bottom > rectangle.top
  }).map(other => other.id)
}"""
SMALL = """[...document.querySelectorAll('button, label, summary')]
  .filter(control => control.checkVisibility() && control.offsetHeight < 44)
  .map(control => control.outerHTML)"""
LAST_LETTER = """(() => {
  const range = new Range(), node = document.querySelector('.said p:last-child').lastChild
  range.setStart(node, node.length - 1)
  range.setEnd(node, node.length)
  const { top, bottom } = range.getBoundingClientRect()
  return [top, bottom, scrollY]
})()"""
SEVERAL = """Object.assign(READY, { title: 'A talk', targets: ['de', 'zh', 'it'], languages: [
  { code: 'de', name: 'German' }, { code: 'zh', name: 'Chinese' },
  { code: 'it', name: 'Italian' }] })"""
SWEDISH = "Object.defineProperty(navigator, 'languages', { value: ['sv'] });"


def resize(page, size):
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))


@pytest.fixture
def speaking(tabs, page_server):
    """A speaker's page with a talk in three languages."""
    page = tabs.open(page_server.address, WINDOWS["desktop"], STAND_IN)
    page.locator("#start:enabled").click()
    until(page, "window.source")
    page.evaluate(f"{SEVERAL}; tell(READY); say({TALK!r})")
    page.evaluate("tell({ type: 'status', audio_s: 30, behind_s: 0, rtf: 0.5, viewers: 3 })")
    until(page, f"document.querySelector('.said').textContent.trim() === {TALK!r}")
    yield page
    check_clean(tabs, page_server.address)


@pytest.fixture
def viewing(tabs, page_server):
    """Open the viewers' page of a room with these languages."""

    def viewing(query="", languages=("de", "zh", "it"), script=""):
        address = f"{page_server.address}captions?room=talk{query}"
        page = tabs.open(address, WINDOWS["phone"], STAND_IN + script)
        until(page, "window.source")
        codes = ", ".join(f"{{ code: '{code}', name: '{code}' }}" for code in languages)
        page.evaluate(f"Object.assign(READY, {{ languages: [{codes}] }}); tell(READY)")
        return page

    return viewing


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("over", [False, True])
def test_the_text_keeps_half_of_the_window_whatever_is_open(speaking, window, over):
    page = speaking
    if over:
        page.evaluate("tell({ type: 'end', audio_s: 31 }); source.onclose({ code: 1000 })")
        page.locator("#new:visible").wait_for()
    resize(page, WINDOWS[window])
    for panel in ("share", "save", "more"):
        page.locator(f"#{panel} summary").click()
        page.locator(f"#{panel} .panel:visible").wait_for()
        width, height = page.evaluate(SHARE_OF_WINDOW, "#said")
        assert width >= 0.5, panel
        assert height >= 0.499, panel
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("details[open]").count() == 1  # one panel at a time


@pytest.mark.parametrize("size", [*WINDOWS.values(), ZOOMED])
def test_controls_have_the_size_of_a_finger_on_both_pages(speaking, viewing, size):
    viewer = viewing("&target=de&lines=all")
    for page, panels in ((speaking, ("share", "save", "more")), (viewer, ("more",))):
        resize(page, size)
        for panel in panels:
            page.locator(f"#{panel} summary").click()
            assert page.evaluate(SMALL) == [], panel
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("width", [1000, 1140, 1280, 390])
def test_a_warning_lies_under_no_other_box(speaking, width):
    page = speaking
    resize(page, (width, 800))
    page.evaluate("track.onended()")
    page.get_by_text("The microphone was unplugged. Plug it in again, or choose").wait_for()
    assert page.evaluate(OVERLAPS, "#notice") == []
    assert page.evaluate(OVERLAPS, "#buttons") in ([], ["bar"])
    assert text(page.locator("#state")) == "no sound: your speech is not recorded"


@pytest.mark.parametrize("warned", [False, True])
def test_at_400_percent_the_speaker_sees_the_translation_without_scrolling(speaking, warned):
    page = speaking
    resize(page, ZOOMED)
    if warned:
        page.evaluate("track.onended()")
        page.get_by_text("The microphone was unplugged.").wait_for()
    page.evaluate("say('Zuletzt dies.')")
    until(page, "document.querySelector('#said').scrollTop > 0")
    page.wait_for_timeout(100)
    top, bottom, scrolled = page.evaluate(LAST_LETTER)
    assert scrolled == 0
    assert 0 < top < bottom <= ZOOMED[1]
    assert page.locator("#stop").bounding_box()["y"] < 60
    assert page.evaluate("document.documentElement.scrollWidth") <= ZOOMED[0]
    # The rest is below, and the page scrolls.
    for below in ("#talk-title", "#device", "#more summary"):
        page.locator(below).scroll_into_view_if_needed()
        assert page.locator(below).is_visible()
    assert violations(page) == []


def test_columns_that_would_be_too_narrow_become_tabs(speaking):
    page = speaking
    assert page.locator("article:visible").count() == 3
    resize(page, WINDOWS["turned"])
    page.locator("#share summary").click()
    page.locator("#tabs:visible").wait_for()
    assert page.locator("article:visible").count() == 1


def test_title_room_viewers_and_stop_are_seen_while_live(speaking):
    page = speaking
    assert text(page.locator("#meta")) == "A talk room talk viewers: 3"
    for name in ("#talk-title", "#talk-room", "#watching", "#stop"):
        assert page.locator(name).is_visible()
    colors = "getComputedStyle(document.querySelector('#stop')).backgroundColor"
    assert page.evaluate(colors) == "rgb(179, 38, 30)"
    before = page.locator("#stop").bounding_box()
    page.evaluate("tell({ type: 'end', audio_s: 31 }); source.onclose({ code: 1000 })")
    after = page.locator("#start").bounding_box()
    assert before["y"] == after["y"]  # the buttons stay in one place


def test_share_shows_the_address_a_copy_button_and_the_picture(speaking):
    page = speaking
    page.locator("#share summary").click()
    address = page.locator("#readers").get_attribute("href")
    assert text(page.locator("#readers")) == address
    assert address.endswith("/captions?room=talk")
    until(page, "document.querySelector('#code').naturalWidth > 0")
    assert page.locator("#code").get_attribute("alt") == "QR code of the link for viewers"
    heading = page.get_by_text("For OBS or a projector:").bounding_box()
    overlays = page.locator("#overlays a").first.bounding_box()
    assert 0 <= overlays["y"] - heading["y"] - heading["height"] < 20
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    page.get_by_text("copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == address


def test_after_the_end_files_and_link_are_visible_and_the_text_stays(speaking):
    page = speaking
    mark = "[...CSS.highlights.get('now')].map(String).join()"
    assert page.evaluate(mark) == " Das ist der Satz 29 von dreißig."  # the last sentence
    assert page.locator("#result").is_hidden()
    page.evaluate("tell({ type: 'end', audio_s: 31 }); source.onclose({ code: 1000 })")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Deutsch: Save the text").click()
    assert saved.value.suggested_filename == "talk.de.txt"
    assert page.locator("#here").is_visible()
    assert page.locator("#here").get_attribute("href").endswith("/captions?room=talk")
    assert said(page) == TALK
    page.reload()
    until(page, f"document.querySelector('.said')?.textContent.trim() === {TALK!r}")
    assert text(page.locator("#clock")) == "0:31"
    assert page.locator("#result").is_visible()


def test_a_reload_keeps_what_was_heard_and_shows_no_empty_heading(speaking):
    page = speaking
    page.reload()
    page.locator(".said").first.wait_for()
    assert page.locator("#heard-title").is_hidden()
    assert text(page.locator("#clock")) == "0:30"
    page.locator("#start").click()
    until(page, "source instanceof WebSocket && source.onmessage !== undefined")
    heard = "{ type: 'heard', closed: [[['Hello.', 0, 1]]], words: [], accessible: 0 }"
    page.evaluate(f"tell({{ ...READY, resumed: true }}, {heard})")
    page.once("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator("#heard-title:visible").wait_for()
    assert text(page.locator("#past")) == "Hello."


def test_without_the_switch_all_heard_words_look_the_same(speaking):
    page = speaking
    words = [
        [" one", 0, 1, "settled"],
        [" two", 1, 2, "stable"],
        [" three", 2, 3, "new"],
    ]
    heard = {"type": "heard", "closed": [], "words": words, "accessible": 2}
    page.evaluate("m => tell(m)", heard)
    looks = """[...document.querySelectorAll('%s')].map(word => {
      const { color, textDecorationLine, textDecorationStyle, fontWeight } = getComputedStyle(word)
      return [color, textDecorationLine, textDecorationStyle, fontWeight].join(' ')
    })"""
    shown = looks % "#open :is(.settled, .stable, .new)"
    until(page, f"{shown}.length === 3")
    assert len(set(page.evaluate(shown))) == 1
    page.locator("#more summary").click()
    page.locator("#details").check()
    assert len(set(page.evaluate(shown))) == 3
    key = looks % ".key :is(.settled, .stable, .new)"
    assert sorted(page.evaluate(key)) == sorted(page.evaluate(shown))


def test_one_language_is_shown_without_a_question(viewing):
    page = viewing(languages=["it"], script=SWEDISH)
    until(page, "new URLSearchParams(location.search).get('target') === 'it'")
    assert page.locator("#notice").text_content() != "Which language do you want to read?"


def test_an_undecided_visitor_sees_large_buttons(viewing):
    page = viewing(script=SWEDISH)
    page.get_by_text("Which language do you want to read?").wait_for()
    for link in page.locator("#languages a").all():
        assert link.bounding_box()["height"] >= 60
    assert page.locator("#boxes").is_hidden()
    assert violations(page) == []


def test_a_viewer_reads_the_spoken_language_beside_the_translation(viewing):
    page = viewing("&target=de&lines=all", languages=["de", "en"])
    page.evaluate("say('Guten Tag.'); say('Good day.', 'en')")
    page.locator("#more summary").click()
    assert page.locator("#beside option").all_text_contents() == ["nothing", "English (spoken)"]
    page.locator("#beside").select_option("en")
    assert text(page.locator("#text-beside")) == "Good day."  # also what was said before
    page.evaluate("say('How are you?', 'en')")
    assert text(page.locator("#text-beside")) == "Good day. How are you?"
    assert text(page.locator("#text")) == "Guten Tag."
    assert page.locator("#lines-beside").get_attribute("lang") == "en"
    page.reload()
    until(page, "window.source")
    page.evaluate(
        "Object.assign(READY, { languages: [{ code: 'de', name: 'German' },"
        " { code: 'en', name: 'English' }] }); tell(READY)"
    )
    assert page.locator("#second").is_visible()  # remembered


def test_a_viewer_searches_the_text(viewing):
    page = viewing("&target=de&lines=all")
    page.evaluate(f"say({TALK!r})")
    page.locator("#find").click()
    page.keyboard.type("SATZ 1")
    matches = page.locator("#matches")
    assert text(matches) == "11 / 11"  # 1 and 10 to 19; the newest first
    current = "[...CSS.highlights.get('match')][0].toString()"
    assert page.evaluate(current) == "Satz 1"
    page.keyboard.press("Enter")
    assert text(matches) == "1 / 11"
    page.locator("#previous").click()
    assert text(matches) == "11 / 11"
    page.locator("#query").fill("Donau")
    assert text(matches) == "not found"
    assert page.locator("#next").is_disabled()
    page.locator("#find").click()
    assert page.evaluate("CSS.highlights.get('matches').size") == 0
