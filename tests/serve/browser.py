"""Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PROGRAM = shutil.which("chromium")
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}
START_S = 60
ANSWER_S = 30


class PageError(Exception):
    """What a page, or the browser, complained about."""


class Browser:
    """A headless Chromium with a profile of its own.

    Args:
        microphone: recording that its microphone plays, once.
    """

    def __init__(self, microphone=None):
        self._profile = tempfile.mkdtemp(prefix="alignatt-browser-")
        command = [
            *(PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", "--remote-debugging-port=0", "--hide-scrollbars"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={self._profile}", "--autoplay-policy=no-user-gesture-required"),
        ]
        if microphone is not None:
            command += ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
            command += [f"--use-file-for-fake-audio-capture={microphone}%noloop"]
        self._process = subprocess.Popen(
            [*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._address = f"http://127.0.0.1:{self._port()}/json"
        self.pages = []

    def _port(self):
        path = Path(self._profile) / "DevToolsActivePort"
        deadline = time.monotonic() + START_S
        while not (path.exists() and "\n" in path.read_text()):
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return int(path.read_text().splitlines()[0])

    def open(self, url):
        """Open a page in a tab of its own."""
        request = urllib.request.Request(f"{self._address}/new?about:blank", method="PUT")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ANSWER_S) as answer:
            page = Page(json.load(answer)["webSocketDebuggerUrl"])
        self.pages.append(page)
        page.go(url)
        return page

    def close_pages(self):
        """Close every tab but the first, which keeps the browser alive."""
        for page in self.pages:
            with contextlib.suppress(ConnectionClosed, PageError):
                page.command("Page.close")
        self.pages.clear()

    def close(self):
        self.close_pages()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self._profile, ignore_errors=True)


class Page:
    """One tab.

    Attributes:
        complaints: exceptions, errors and warnings of the console so far.
        requests: addresses that were asked for.
    """

    def __init__(self, address):
        self._socket = connect(address, max_size=None, proxy=None)
        self._numbers = itertools.count(1)
        self._answers = queue.Queue()
        self.complaints, self.requests = [], []
        threading.Thread(target=self._read, daemon=True).start()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def _read(self):
        with contextlib.suppress(ConnectionClosed):
            for text in self._socket:
                message = json.loads(text)
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._note(message["method"], message["params"])

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(params["args"])
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if method == "Network.webSocketCreated":
            self.requests.append(params["url"])

    def command(self, method, **params):
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := self._answers.get(timeout=ANSWER_S))["id"] != number:
            pass
        if "error" in answer:
            raise PageError(answer["error"])
        return answer["result"]

    def js(self, expression):
        """Return what an expression, or a promise, evaluates to."""
        answer = self.command(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression, wait_s=30):
        """Wait until an expression is true; a node is not, its ``!!`` is."""
        deadline = time.monotonic() + wait_s
        value = None
        while not value:
            assert time.monotonic() < deadline, expression
            try:
                value = self.js(expression)
            except PageError as error:  # a link was followed: the next page answers
                if "navigated" not in str(error):
                    raise
            if not value:
                time.sleep(0.05)
        return value

    def go(self, url):
        self.command("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def reload(self):
        self.js("window.old = true")
        self.command("Page.reload")
        self.until("!window.old && document.readyState === 'complete'")

    def size(self, width, height):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def key(self, name):
        """Press a key of ``KEYS``."""
        text = {"Enter": "\r", " ": " "}.get(name, "")
        for kind, typed in (("keyDown", text), ("keyUp", "")):
            self.command(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code="Space" if name == " " else name,
                windowsVirtualKeyCode=KEYS[name],
                text=typed,
            )

    def colours(self, scheme):
        """Prefer ``light`` or ``dark``."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.command("Emulation.setEmulatedMedia", features=[feature])

    def choose_file(self, selector, path):
        root = self.command("DOM.getDocument")["root"]["nodeId"]
        node = self.command("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.command("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def picture(self):
        """Return what is visible as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])
