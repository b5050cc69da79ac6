"""Films the live page while a talk of the embedded dev set plays: ``film.py OUT.gif [ADDRESS]``.

It starts ``alignatt serve --config micro-low`` itself, unless it is given the address of one.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import time
import wave
from pathlib import Path

from PIL import Image

from tests.serve.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
TALK = ROOT / "micro_models" / "devset" / "wav" / "talk-a.wav"
SECONDS, FRAMES_PER_S = 18, 4
SIZE = (960, 700)
COLOURS = 96


@contextlib.contextmanager
def serving():
    """Start a server on the embedded models; yields its address."""
    command = [str(Path(sys.executable).parent / "alignatt"), "serve", "--config", "micro-low"]
    process = subprocess.Popen([*command, "--port", "8091"], stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            if found := re.match(r"http://\S+", line):
                yield found.group()
                break
        else:
            sys.exit("the server did not start")
    finally:
        process.terminate()
        process.wait(60)


def cut(folder: Path) -> Path:
    """Write the beginning of the talk as a recording of its own."""
    path = folder / "beginning.wav"
    with wave.open(str(TALK)) as whole, wave.open(str(path), "wb") as part:
        part.setparams(whole.getparams())
        part.writeframes(whole.readframes((SECONDS - 2) * whole.getframerate()))
    return path


def film(address: str, recording: Path) -> list[Image.Image]:
    """Play the recording on the page at ``address``; returns the frames."""
    browser, frames = Browser(), []
    try:
        page = browser.open(address)
        page.size(*SIZE)
        page.until("!document.getElementById('start').disabled")
        page.js("document.querySelector('[name=target][value=it]').click()")
        page.js("document.querySelector('[name=input][value=file]').click()")
        page.choose_file("#file", recording)
        page.js("document.getElementById('start').click()")
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < SECONDS:
            frames.append(Image.open(io.BytesIO(page.picture())).convert("RGB"))
            wait = len(frames) / FRAMES_PER_S - now
            time.sleep(max(0.0, wait))
        if page.complaints:
            sys.exit(f"the page complained: {page.complaints}")
    finally:
        browser.close()
    return frames


def main() -> None:
    """Film and write the file."""
    out, *given = sys.argv[1:]
    recording = cut(Path(out).resolve().parent)
    try:
        with contextlib.nullcontext(given[0]) if given else serving() as address:
            frames = film(address, recording)
    finally:
        recording.unlink()
    some = [frame.crop((0, 250, *SIZE)) for frame in frames[:: len(frames) // 6]]
    strip = Image.new("RGB", (SIZE[0], sum(frame.height for frame in some)))
    for number, frame in enumerate(some):
        strip.paste(frame, (0, number * frame.height))
    palette = strip.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    shown = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    shown[0].save(
        out,
        save_all=True,
        append_images=shown[1:],
        duration=1000 * SECONDS // len(shown),
        loop=0,
        optimize=True,
    )
    print(f"{out}: {len(shown)} frames, {Path(out).stat().st_size / 2**20:.2f} MB")


if __name__ == "__main__":
    main()
