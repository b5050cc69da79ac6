"""The pages by keyboard alone, and their colours by day and by night; not run without Chromium."""

import pytest

from tests.serve import pages

CONTROLS = """[...document.querySelectorAll(
    'a[href], button, input, textarea, select, summary, [tabindex]')]
  .filter(item => item.checkVisibility() && !item.disabled && item.tabIndex >= 0)
"""
"""What Tab has to reach."""


def check_layout(page):
    """No sideways scrolling; axe is content, and no control is smaller than a finger."""
    for width in (390, 1200):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert pages.violations(page) == []
    small = page.evaluate(
        """[...document.querySelectorAll('button, label, summary')]
          .filter(item => item.offsetHeight && item.offsetHeight < 44)
          .map(item => item.outerHTML)"""
    )
    assert small == []


def tab_to(page, selector):
    """Press Tab until a control has the focus; it has to be seen that it has."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab does not reach {selector}")


def press(page, selector, key="Enter"):
    tab_to(page, selector)
    page.keyboard.press(key)


def reached(page):
    """Press Tab until the focus is where it was; returns the controls that it did not reach."""
    page.evaluate(f"window.wanted = {CONTROLS}")
    for _ in range(60):
        page.keyboard.press("Tab")
        page.evaluate("window.wanted = wanted.filter(item => item !== document.activeElement)")
    return page.evaluate("wanted.map(item => item.outerHTML)")


def test_everything_can_be_done_by_keyboard(page, page_server, tabs, recording):
    # Early: the browser may open a dialog of its own before it hears that somebody listens.
    page.on("filechooser", lambda asked: asked.set_files(recording))
    check_layout(page)
    assert reached(page) == []
    press(page, "[name=target][value=zh]", "Space")
    press(page, "#device", "End")
    assert page.locator("#device").input_value() == "file"
    tab_to(page, "#file")
    page.keyboard.press("Enter")
    pages.until(page, "document.querySelector('#file').files.length")
    press(page, "#options summary")
    tab_to(page, "#title")
    page.keyboard.insert_text("A talk")
    press(page, "#room", "ControlOrMeta+a")
    page.keyboard.insert_text("typed")
    tab_to(page, "#context")
    page.keyboard.insert_text("Wort")
    assert page.locator("#context").input_value() == "Wort"
    page.locator("#context").fill("")  # fake engines take none
    press(page, "#start")
    pages.wait_for_words(page, 2)
    keys = ["typed", "A talk", ["de", "zh"]]
    assert page.evaluate("[told[0].room, told[0].title, told[0].targets]") == keys
    press(page, "#stop", "Space")
    pages.wait_for_end(page)
    assert pages.said(page)
    check_layout(page)
    assert reached(page) == []
    size = "getComputedStyle(document.documentElement).getPropertyValue('--size')"
    before = page.evaluate(size)
    press(page, "#larger", "Space")
    assert page.evaluate(size) > before
    press(page, "#smaller")
    assert page.evaluate(size) == before
    press(page, "#more summary")
    press(page, "#details", "Space")
    assert page.locator(".draft").first.is_visible()
    press(page, "#save summary")
    tab_to(page, "#save a[href*=srt]")
    with page.expect_download():
        page.keyboard.press("Enter")
    pages.check_clean(tabs, page_server.address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(page, page_server, tabs, scheme):
    page.emulate_media(color_scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert (max(page.evaluate(colour)) < 60) == (scheme == "dark")
    assert pages.violations(page) == []
    captions = f"{page_server.address}captions?room=talk"
    viewer, overlay = tabs.open(captions), tabs.open(f"{captions}&target=de")
    viewer.emulate_media(color_scheme=scheme)
    page.locator("#more summary").click()
    page.locator("#details").check()
    page.locator("#start").click()
    for drawn in (".draft .no", "mark"):
        page.locator(drawn).first.wait_for(state="attached")
    assert pages.violations(page) == []
    page.locator("#stop").click()
    pages.wait_for_end(page)
    assert pages.violations(page) == []
    viewer.locator("#languages a").first.wait_for()
    assert pages.violations(viewer) == []
    viewer.locator("#languages a").first.click()
    for reader in (viewer, overlay):
        reader.get_by_text("Wort").first.wait_for()
        assert pages.violations(reader) == []
