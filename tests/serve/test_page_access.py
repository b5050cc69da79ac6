"""The pages by keyboard alone, and their colours by day and by night; not run without Chromium."""

from __future__ import annotations

import pytest

from tests.serve.browser import PROGRAM
from tests.serve.pages import check_clean, press, said

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium here: sh requirements/install-chromium.sh"
)

CONTROLS = """[...document.querySelectorAll(
    'a[href], button, input, textarea, select, summary, [tabindex]')]
  .filter(item => item.checkVisibility() && !item.disabled && item.tabIndex >= 0)
  .filter(item => item.type !== 'radio' || item.checked)"""
"""What Tab has to reach; of radio buttons the one that is chosen, arrows lead to the others."""

CONTRASTS = """(() => {
  const rgba = text => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4)
  const over = ([r, g, b, a], under) => [r, g, b].map((x, k) => x * a + under[k] * (1 - a))
  const ground = (item, page) => {
    const layers = []
    for (; item; item = item.parentElement) layers.push(getComputedStyle(item).backgroundColor)
    return layers.reduceRight((under, layer) => over(rgba(layer), under), page)
  }
  const linear = x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4
  const light = colour => {
    const [r, g, b] = colour.map(x => linear(x / 255))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const found = []
  const note = (text, item, part) => {
    if (!text || !item.checkVisibility() || item.closest(':disabled, script')) return
    const ratios = [[255, 255, 255], [0, 0, 0]].map(page => {
      const below = ground(item, page), ink = over(rgba(getComputedStyle(item, part).color), below)
      const [a, b] = [light(ink), light(below)].sort((x, y) => y - x)
      return (a + 0.05) / (b + 0.05)
    })
    found.push([text, item.className || item.id || item.tagName, Math.min(...ratios)])
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) note(walk.currentNode.data.trim(), walk.currentNode.parentElement)
  for (const item of document.querySelectorAll('[placeholder]')) {
    note(item.placeholder, item, '::placeholder')
  }
  return found
})()"""
"""Text, where it stands, and its contrast (WCAG 2.2), on the worse of a white and a black page."""


def tab_to(page, selector):
    """Press Tab until a control has the focus; it has to be seen that it has."""
    for _ in range(60):
        page.key("Tab")
        if page.js(f"document.activeElement.matches({selector!r})"):
            assert page.js("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab does not reach {selector}")


def reached(page):
    """Press Tab until the focus is where it was; returns how many controls it did not reach."""
    page.js(f"window.wanted = {CONTROLS}")
    for _ in range(60):
        page.key("Tab")
        page.js("window.wanted = wanted.filter(item => item !== document.activeElement)")
    return page.js("wanted.map(item => item.outerHTML)")


def test_everything_can_be_done_by_keyboard(page, page_server, recording):
    assert reached(page) == []
    tab_to(page, "[name=target][value=zh]")
    page.key(" ")
    tab_to(page, "[name=input]:checked")
    page.key("ArrowDown")
    assert page.js("document.querySelector('[name=input]:checked').value") == "file"
    page.command("Page.setInterceptFileChooserDialog", enabled=True)
    tab_to(page, "#file")
    page.js("document.activeElement.onclick = () => { window.asked = true }")
    page.key("Enter")
    page.until("window.asked")
    page.choose_file("#file", recording)
    tab_to(page, "#room")
    page.js("document.activeElement.select()")
    page.command("Input.insertText", text="typed")
    tab_to(page, "summary")
    page.key("Enter")
    tab_to(page, "#context")
    page.command("Input.insertText", text="Wort")
    page.js("document.activeElement.value = ''")  # fake engines take none
    tab_to(page, "#start")
    page.key("Enter")
    page.until("document.querySelectorAll('.said span').length > 2")
    assert page.js("told[0].room") == "typed"
    assert page.js("told[0].targets") == ["de", "zh"]
    tab_to(page, "#stop")
    page.key(" ")
    page.until("told.at(-1).type === 'end'")
    assert said(page)
    assert reached(page) == []
    size = "getComputedStyle(document.documentElement).getPropertyValue('--size')"
    before = page.js(size)
    tab_to(page, "#larger")
    page.key(" ")
    assert page.js(size) > before
    tab_to(page, "#smaller")
    page.key("Enter")
    assert page.js(size) == before
    tab_to(page, "#details")
    page.key(" ")
    assert page.js("document.querySelector('.why').checkVisibility()") is False
    tab_to(page, ".links a[href*=srt]")
    page.js("document.activeElement.onclick = () => { window.link = true }")
    page.key("Enter")
    page.until("window.link")
    check_clean(page, page_server.address)


def hard_to_read(page):
    found = page.js(CONTRASTS)
    assert found
    return [item for item in found if item[2] < 4.5]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(page, page_server, browser, scheme):
    page.colours(scheme)
    body = page.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(body) < 60) == (scheme == "dark")
    assert hard_to_read(page) == []
    address = f"{page_server.address}captions?room=talk&lines="
    viewers = [browser.open(address + lines) for lines in ("2", "all")]
    press(page, "start")
    page.until("!!document.querySelector('.draft .no') && !!document.querySelector('.mark')")
    assert hard_to_read(page) == []
    press(page, "stop")
    page.until("told.at(-1).type === 'end'")
    assert hard_to_read(page) == []
    for viewer in viewers:
        viewer.colours(scheme)
        viewer.until("!!document.querySelector('#languages a')")
        assert hard_to_read(viewer) == []
        viewer.js("document.querySelector('#languages a').click()")
        viewer.until("document.getElementById('lines')?.textContent.length > 5")
        assert [item for item in viewer.js(CONTRASTS) if item[2] < 4.5] == []
