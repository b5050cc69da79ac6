"""Debian's Chromium, driven by Playwright."""

import contextlib
import shutil

import pytest
from playwright.sync_api import sync_playwright

PROGRAM = shutil.which("chromium")


class Tabs:
    """The tabs of one visit, which share what a browser stores.

    Attributes:
        complaints: exceptions, errors and warnings of all consoles so far.
        requests: addresses that were asked for.
    """

    def __init__(self, browser):
        self.complaints, self.requests = [], []
        self._context = context = browser.new_context()
        context.on("console", self._note)
        context.on("weberror", lambda found: self.complaints.append(str(found.error)))
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("page", lambda page: page.on("websocket", self._note_socket))

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_socket(self, socket):
        self.requests.append(socket.url)

    def open(self, url, size=None, script=None, clock=False):
        """Open a page in a tab of its own; a script runs before those of the page.

        With ``clock`` its time stands still until ``page.clock`` moves it.
        """
        page = self._context.new_page()
        if clock:
            page.clock.install()
        if size:
            page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        if script:
            page.add_init_script(script)
        page.goto(url)
        return page

    def close(self):
        self._context.close()


@contextlib.contextmanager
def chromium(microphone=None):
    """Start a browser without a window; its microphone plays a recording, once."""
    if PROGRAM is None:
        pytest.skip("no Chromium here: sh requirements/install-chromium.sh")
    given = ["--autoplay-policy=no-user-gesture-required"]
    if microphone is not None:
        given += ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
        given += [f"--use-file-for-fake-audio-capture={microphone}%noloop"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=given)
        yield browser
        browser.close()
