"""Save screenshots of the pages while an embedded talk plays: ``python -m lab.pages.shots FOLDER``.

The screenshots show desktop, phone, dark mode, zoom of 200 and 400 %, viewers, OBS and projector,
and every panel during and after the talk.
The script prints how long reasons were displayed, and the violations that axe-core finds.
"""

import itertools
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from lab.pages.film import TALK
from tests.serve.browser import Tabs, chromium
from tests.serve.live import serving
from tests.serve.pages import open_page, play, until, violations

WINDOWS = {
    "desktop": (1280, 800),
    "phone": (390, 844),
    "turned": (844, 390),
    "zoom-200": (640, 400),
    "zoom-400": (320, 256),
}
OVERLAYS = {"obs": ("", (1280, 200)), "projector": ("&lines=3&size=4", (1280, 720))}
PANELS = ("share", "save", "more")
SECONDS = 40

WATCH = """
window.changes = []
const why = document.querySelector(".why")
new MutationObserver(() => changes.push([performance.now(), why.textContent]))
  .observe(why, { childList: true })
"""


class Photographer:
    """Takes pictures into a folder.

    Attributes:
        violations: of axe's rules, by picture.
        wide: pictures of pages that have to be scrolled sideways.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.violations, self.wide = {}, []

    def take(self, page, name, size=None):
        """Take a picture of a window of this size, and check it."""
        if size:
            page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(200)
        page.screenshot(path=self._folder / f"{name}.png")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.wide.append(name)
        if found := violations(page):
            self.violations[name] = found


def photograph_panels(page, camera: Photographer, name: str) -> None:
    """Take pictures of the page with each panel open, on a desktop and on a phone."""
    for panel in PANELS:
        for window in ("desktop", "phone"):
            page.set_viewport_size(dict(zip(("width", "height"), WINDOWS[window], strict=True)))
            page.locator(f"#{panel} summary").click()
            camera.take(page, f"{name}-{panel}-{window}")
            page.locator(f"#{panel} summary").click()


def record_talks(path: Path) -> None:
    """Write a recording of all talks, which is longer than taking the pictures takes."""
    pieces = []
    for talk in sorted(TALK.parent.glob("*.wav")):
        samples, rate = soundfile.read(talk, dtype="int16")
        pieces.append(samples)
    soundfile.write(path, np.concatenate(3 * pieces), rate)


def photograph(address: str, camera: Photographer, recording: Path) -> list[float]:
    """Play the recording on the page at ``address``; return how many seconds each reason stayed."""
    with chromium() as browser:
        tabs = Tabs(browser)
        page = open_page(tabs, address)
        for name in ("desktop", "phone", "zoom-400"):
            camera.take(page, f"idle-{name}", WINDOWS[name])
        page.locator("[name=target][value=zh]").check()
        play(page, recording)
        page.locator("#start").click()
        viewer = tabs.open(f"{address}captions?room=talk&target=de&lines=all", WINDOWS["phone"])
        until(page, "document.querySelector('.why')?.textContent")
        page.evaluate(WATCH)
        until(page, f"told.findLast(m => m.type === 'status').audio_s > {SECONDS}")
        for name, size in WINDOWS.items():
            camera.take(page, f"live-{name}", size)
        photograph_panels(page, camera, "live")
        page.emulate_media(color_scheme="dark")
        camera.take(page, "live-dark", WINDOWS["desktop"])
        page.locator("#details").evaluate("item => item.click()")
        camera.take(page, "live-detail")
        page.locator("#details").evaluate("item => item.click()")
        for name in ("phone", "zoom-400", "desktop"):
            camera.take(viewer, f"viewer-{name}", WINDOWS[name])
        for name in ("desktop", "phone"):
            viewer.locator("#more summary").click()
            camera.take(viewer, f"viewer-settings-{name}", WINDOWS[name])
            viewer.locator("#more summary").click()
        for name, (query, size) in OVERLAYS.items():
            overlay = tabs.open(f"{address}captions?room=talk&target=de{query}", size)
            overlay.evaluate("document.documentElement.style.background = '#3a6ea5'")  # a picture
            overlay.locator("#text div").nth(1).wait_for()
            camera.take(overlay, name)
        changes = page.evaluate("changes")
        page.locator("#stop").click()
        until(page, "told.at(-1).type === 'end'")
        page.emulate_media(color_scheme="light")
        for name in ("desktop", "phone", "zoom-400"):
            camera.take(page, f"over-{name}", WINDOWS[name])
        photograph_panels(page, camera, "over")
    assert tabs.complaints == []
    return [(b - a) / 1000 for (a, text), (b, _) in itertools.pairwise(changes) if text]


def main() -> None:
    """Photograph and print the findings."""
    camera = Photographer(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log") as (_, address):
        record_talks(Path(folder) / "talks.wav")
        stayed = photograph(address, camera, Path(folder) / "talks.wav")
    print(f"{len(stayed)} reasons stayed {statistics.median(stayed):.2f} s (median), ", end="")
    print(f"{min(stayed):.2f} s (least); too wide: {camera.wide or 'none'}")
    print(f"axe: {camera.violations or 'no violations'}")


if __name__ == "__main__":
    main()
