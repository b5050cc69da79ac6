"""The speaker's page in a browser: what tests press and read."""

import time
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error

HERE = Path(__file__).parent
RECORD = (HERE / "record.js").read_text("utf-8")
STAND_IN = RECORD + (HERE / "stand_in.js").read_text("utf-8")

WAIT_S = 60


def open_page(tabs, address):
    """Open the page of a server for the room ``talk``; what it is told is in ``told``."""
    page = tabs.open(f"{address}?room=talk", script=RECORD)
    page.locator("#start:enabled").wait_for()
    return page


def until(page, expression):
    """Wait until an expression of the page is true.

    Playwright's own ``wait_for_function`` needs ``eval``, which the pages forbid.
    """
    deadline = time.monotonic() + WAIT_S
    while not _evaluated(page, expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def _evaluated(page, expression):
    try:
        return page.evaluate(expression)
    except Error as error:  # a link was followed: the next page answers
        if "navigation" not in str(error):
            raise
        return None


def violations(page):
    """Return what breaks the rules of axe for pages that everybody can read and use."""
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = Axe().run(page, options={"preload": 0, "runOnly": rules}).response["violations"]
    return [(item["id"], [node["html"] for node in item["nodes"]]) for item in found]


def wait_for_words(page, count):
    """Wait until more than so many words were said."""
    words = (
        "[...document.querySelectorAll('.said')].flatMap(x => x.textContent.match(/\\S+/g) ?? [])"
    )
    until(page, f"{words}.length > {count}")


def wait_for_end(page):
    until(page, "told.at(-1).type === 'end'")


def text(locator):
    """Return its text with single spaces; none if it is not there."""
    return " ".join(" ".join(locator.all_text_contents()).split())


def said(page, code="de"):
    return text(page.locator(f".said[lang={code}]"))


def play(page, recording):
    """Choose the recording instead of the microphone."""
    page.locator("#device").select_option("file")
    page.locator("#file").set_input_files(recording)


def check_clean(tabs, address):
    """No complaint on a console, and no request to any other server."""
    assert not tabs.complaints, tabs.complaints
    here = address.partition("//")[2]
    assert [url for url in tabs.requests if f"//{here}" not in url] == []
