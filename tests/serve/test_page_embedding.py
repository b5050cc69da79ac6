"""The HTML code of docs/serve.md, in a page of another origin."""

import functools
import http.server
import re
import threading
from pathlib import Path

import pytest

from tests.serve import live, pages

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
EXAMPLES = re.findall(r"```html\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.S)
SERVER = "https://captions.example.org/"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """A web server of the files in ``tmp_path``; yields its origin."""
    handler = functools.partial(QuietHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("target", "expected"),
    [pytest.param("de", live.GERMAN, id="de"), pytest.param("zh", live.CHINESE, id="zh")],
)
def test_the_examples_of_the_documentation_show_the_text_as_it_is(
    tabs, tmp_path, site, target, expected
):
    assert len(EXAMPLES) == 2  # a frame and a script
    with live.Running(live.make_service(tmp_path, embed=[site])) as server:
        html = "\n".join(EXAMPLES).replace(SERVER, server.address)
        html = html.replace("'de'", f"'{target}'").replace("target=de", f"target={target}")
        (tmp_path / "event.html").write_text(f"<!DOCTYPE html><link rel=icon href=data:>{html}")
        page = tabs.open(f"{site}/event.html")
        live.speak(server, room="talk", targets=["de", "zh"])
        shown = "document.getElementById('captions').textContent.trim()"
        pages.until(page, f"{shown} === {expected!r}")
        frame = page.frame_locator("iframe")
        frame.get_by_text(expected[-2:]).first.wait_for(state="attached")
        assert pages.text(frame.locator("#text")).replace(" ", "") == expected.replace(" ", "")
        assert tabs.complaints == []
