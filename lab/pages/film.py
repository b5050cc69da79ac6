"""Record the live page as a GIF while a talk plays: ``python -m lab.pages.film OUT.gif``."""

import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

from tests.serve.browser import Tabs, chromium
from tests.serve.live import serving
from tests.serve.pages import play

ROOT = Path(__file__).resolve().parents[2]
TALK = ROOT / "micro_models" / "devset" / "wav" / "talk-a.wav"
SECONDS, FRAMES_PER_S = 18, 4
SIZE = (960, 700)
COLOURS = 96


def cut(folder: Path) -> Path:
    """Write the beginning of the talk as a separate recording."""
    path = folder / "beginning.wav"
    frames = (SECONDS - 2) * soundfile.info(TALK).samplerate
    soundfile.write(path, *soundfile.read(TALK, frames, dtype="int16"))
    return path


def film(address: str, recording: Path) -> list[Image.Image]:
    """Play the recording on the page at ``address``; return the frames."""
    frames = []
    with chromium() as browser:
        tabs = Tabs(browser)
        page = tabs.open(address, size=SIZE)
        page.locator("[name=target][value=it]").check()
        page.locator("#details").evaluate("item => item.click()")
        play(page, recording)
        page.locator("#start").click()
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < SECONDS:
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            page.wait_for_timeout(max(0.0, 1000 * (len(frames) / FRAMES_PER_S - now)))
    if tabs.complaints:
        sys.exit(f"the page reported errors: {tabs.complaints}")
    return frames


def main() -> None:
    """Film and write the file."""
    (out,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log") as (_, address):
        frames = film(address, cut(Path(folder)))
    some = np.concatenate([np.asarray(frame)[250:] for frame in frames[:: len(frames) // 6]])
    palette = Image.fromarray(some).quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    shown = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = {"duration": 1000 * SECONDS // len(shown), "loop": 0}
    shown[0].save(out, save_all=True, append_images=shown[1:], optimize=True, **times)
    print(f"{out}: {len(shown)} frames, {Path(out).stat().st_size / 2**20:.2f} MB")


if __name__ == "__main__":
    main()
