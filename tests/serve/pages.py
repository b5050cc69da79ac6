"""The speaker's page in a browser: what tests press and read."""

from __future__ import annotations

import time

RECORD = """
window.told = []
window.sockets = []
const Original = WebSocket
window.WebSocket = class extends Original {
  constructor(...given) {
    super(...given)
    sockets.push(this)
    this.addEventListener('message', ({ data }) => told.push(JSON.parse(data)))
  }
}
"""

SHOWN = """(() => {
  const number = told.findLastIndex(m => m.type === 'draft' && m.target === 'de')
  const draft = told[number], heard = told.slice(0, number).findLast(m => m.type === 'heard')
  const over = told.slice(number).some(
    m => m.type === 'end' || m.type === 'heard' && (m.closed.length || !m.words.length))
  const article = document.querySelector('.said[lang=de]').closest('article')
  const why = article.querySelector('.why')
  return { draft, over, words: heard.words, why: why.textContent, reason: why.dataset.reason,
    waiting: article.querySelector('.draft').textContent }
})()"""


def open_page(browser, address):
    """Open the page of a server for the room ``talk``; what it is told is in ``told``."""
    page = browser.open("about:blank#")
    page.command("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
    page.go(f"{address}?room=talk")
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


def check_why(page):
    """The reason that is shown is the one that the server told; returns it."""
    shown = page.js(SHOWN)
    draft = shown["draft"]
    if shown["over"]:
        assert (shown["waiting"], shown["why"]) == ("", "")
        return "over"
    assert shown["reason"] == draft["reason"]
    assert shown["waiting"] == "".join(text for text, *_ in draft["tokens"][draft["said"] :])
    if draft["reason"] != "source-frontier":
        return draft["reason"]
    token, place, _ = draft["tokens"][draft["accepted"]]
    assert place >= draft["edge"]
    assert f"“{token.strip()}”" in shown["why"]
    assert f"“{shown['words'][place][0]}”" in shown["why"]
    return draft["reason"]


def check_controls(page):
    """Every control has a name, and none is smaller than a finger."""
    roles = ("button", "checkbox", "radio", "textbox", "link", "Meter", "meter", "combobox")
    nodes = page.command("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in (*roles, "DisclosureTriangle")
    ]
    assert len(controls) > 8
    assert [node for node in controls if not node["name"]["value"]] == []
    small = page.js(
        """[...document.querySelectorAll('button, label, summary')]
          .filter(item => item.offsetHeight && item.offsetHeight < 44)
          .map(item => item.outerHTML)"""
    )
    assert small == []


def check_width(page, width):
    """Nothing has to be scrolled sideways."""
    page.size(width, 844)
    assert page.js("document.documentElement.scrollWidth") <= width


def check_clean(page, address):
    """No complaint on the console, and no request to anybody else."""
    assert page.complaints == [], page.complaints
    here = address.partition("//")[2]
    assert [
        url for url in page.requests if f"//{here}" not in url and "about:blank" not in url
    ] == []


def download(page, kind, folder, code="de"):
    """Click on a link of a column; returns the file."""
    page.command("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.js(f"document.querySelector('.links a[href*=\"target={code}&format={kind}\"]').click()")
    path = folder / f"talk.{code}.{kind}"
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return path
