"""The pages while the server is stopped and started again, and while two speakers want one room."""

import pytest

from tests.fakes import agent as fakes
from tests.serve import pages
from tests.serve.browser import Tabs, chromium
from tests.serve.live import Running, get, make_service, wait_until

STATE = "document.getElementById('state').textContent"
LIVE = "document.body.classList.contains('live')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser whose microphone plays a talk of 40 s."""
    recording = tmp_path_factory.mktemp("restart") / "talk.wav"
    fakes.write_talk(recording, fakes.talk(80))
    with chromium(microphone=recording) as browser:
        yield browser


@pytest.mark.parametrize("stored", [True, False])
def test_a_talk_goes_on_after_a_restart(browser, tmp_path, stored):
    limits = {"journal": tmp_path / "journal"} if stored else {}
    tabs = Tabs(browser)
    with Running(make_service(tmp_path, **limits)) as server:
        page = pages.open_page(tabs, server.address)
        viewer = tabs.open(f"{server.address}captions?room=talk&target=de&lines=all")
        page.locator("#start").click()
        pages.wait_for_words(page, 3)
    words = "continues when it is started again" if stored else "does not store talks"
    pages.until(page, f"{STATE}.includes('{words}')")
    page.wait_for_timeout(2000)
    assert words in page.evaluate(STATE)  # also after attempts to connect
    assert page.evaluate(LIVE)
    before = pages.said(page)
    with Running(make_service(tmp_path, **limits), server.port) as server:
        pages.until(page, "told.filter(m => m.type === 'ready').length === 2")
        pages.wait_for_words(page, len(before.split()) + 6)
        page.locator("#stop").click()
        pages.wait_for_end(page)
        whole = pages.said(page)
        assert not page.evaluate("told.some(m => m.type === 'gap')")
        pages.until(viewer, f"document.getElementById('text').textContent.trim() === {whole!r}")
        assert page.locator("#start").text_content() == "Continue this talk"
    numbers = [int(word.strip("Wort.")) for word in whole.split()]
    if not stored:  # the server translated the last word, which it heard to a half
        assert len(numbers) - len(set(numbers)) <= 1
        numbers = sorted(set(numbers))
    assert numbers == list(range(len(numbers)))
    tabs.close()


def test_a_second_speaker_does_not_wait_with_an_open_microphone(browser, tmp_path):
    with Running(make_service(tmp_path)) as server:
        first, second = Tabs(browser), Tabs(browser)
        page = pages.open_page(first, server.address)
        page.locator("#start").click()
        pages.wait_for_words(page, 3)
        other = pages.open_page(second, server.address)
        other.locator("#start").click()
        pages.until(other, f"{STATE}.includes('already has a speaker')")
        pages.until(other, f"!{LIVE}")
        page.locator("#stop").click()
        pages.wait_for_end(page)
        whole = pages.said(page)
        other.wait_for_timeout(3000)
        wait_until(lambda: not server.service.health()["speakers"])
        address = "/transcript?room=talk&target=de&format=txt"
        assert get(server.port, address)[2].strip() == whole
        assert other.evaluate("told.some(m => m.type === 'ready')") is False
        first.close()
        second.close()
