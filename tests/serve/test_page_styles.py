"""Viewers choose how captions look (EN 301 549 7.1.4): on their page, and over a picture."""

import pytest

from tests.serve.pages import STAND_IN, check_clean, text, until, violations

LOOK = """box => {
  const { fontFamily, color, backgroundColor, textShadow, fontSize } =
    getComputedStyle(document.querySelector(box))
  return { fontFamily, color, backgroundColor, textShadow, fontSize }
}"""
VIEWERS = ("captions?room=talk&target=de&lines=all", "#lines", "#more summary")
OVERLAY = ("captions?room=talk&target=de", "#text", "#look summary")


@pytest.fixture
def opened(tabs, page_server):
    def opened(address):
        page = tabs.open(page_server.address + address, (1280, 800), STAND_IN)
        until(page, "window.source")
        page.evaluate("tell(READY); say('Guten Tag.')")
        return page

    yield opened
    check_clean(tabs, page_server.address)


@pytest.mark.parametrize(("address", "box", "summary"), [VIEWERS, OVERLAY])
def test_font_colours_opacity_and_edge_are_chosen_and_remembered(opened, address, box, summary):
    page = opened(address)
    before = page.evaluate(LOOK, box)
    page.locator(summary).click()
    page.locator("#style-font").select_option("serif")
    page.locator("#style-color").fill("#ffff00")
    page.locator("#style-background").fill("#000080")
    page.locator("#style-opacity").fill("40")
    page.locator("#style-edge").select_option("outline")
    chosen = page.evaluate(LOOK, box)
    assert chosen["fontFamily"].startswith("Georgia")
    assert chosen["color"] == "rgb(255, 255, 0)"
    assert chosen["backgroundColor"] == "rgba(0, 0, 128, 0.4)"
    assert chosen["textShadow"].startswith("rgb(0, 0, 0)")  # dark around bright letters
    assert violations(page) == []
    page = opened(address)
    assert page.evaluate(LOOK, box) == chosen
    page.locator(summary).click()
    assert page.locator("#style-color").input_value() == "#ffff00"
    page.get_by_role("button", name="As before").click()
    assert page.evaluate(LOOK, box) == before


def test_an_address_carries_the_appearance_to_obs(opened, tabs):
    page = opened(VIEWERS[0])
    page.locator("#more summary").click()
    page.locator("#style-font").select_option("mono")
    page.locator("#style-color").fill("#00ff00")
    page.locator("#style-edge").select_option("shadow")
    address = page.locator("#overlay").get_attribute("href")
    query = "captions?room=talk&target=de&font=mono&color=00ff00&edge=shadow"
    assert address.endswith(query)
    overlay = opened(f"{query}&size=4&opacity=0&background=ff0000")
    look = overlay.evaluate(LOOK, "#text")
    assert look["color"] == "rgb(0, 255, 0)"
    assert look["backgroundColor"] == "rgba(255, 0, 0, 0)"
    assert look["fontFamily"].startswith('"Noto Sans Mono"')
    assert look["fontSize"] == "64px"


def test_the_overlay_hides_its_fields_from_a_recording(opened):
    page = opened(OVERLAY[0])
    opacity = "getComputedStyle(document.querySelector('#look')).opacity"
    assert page.evaluate(opacity) == "0"
    page.mouse.move(400, 300)
    assert page.evaluate(opacity) == "1"


@pytest.mark.parametrize(
    "query",
    [
        "font=toString&edge=constructor&color=red&background=12345&opacity=101&size=0",
        "font=&edge=&color=%23&background=url(x)&opacity=NaN&size=1e9",
    ],
)
def test_an_impossible_appearance_is_the_usual_one(opened, query):
    usual = opened(OVERLAY[0]).evaluate(LOOK, "#text")
    assert opened(f"{OVERLAY[0]}&{query}").evaluate(LOOK, "#text") == usual


def test_a_weak_contrast_is_told(opened):
    page = opened(VIEWERS[0])
    page.locator("#more summary").click()
    assert text(page.locator(".warning")) == ""
    page.locator("#style-color").fill("#777777")
    page.locator("#style-background").fill("#999999")
    assert text(page.locator(".warning")).startswith("Text and background have a contrast of 1.6")
