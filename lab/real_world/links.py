"""Align the words of calibration pairs with eflomal (GPL-3), in a separate process and folder."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.real_world.handbook import Sentence

CHOOSE, JUDGE = 200, 120  # pairs to choose heads on, and pairs to judge them on
_UNITS = {"zh": r"[0-9A-Za-z]+|\S", "ja": r"[0-9A-Za-z]+|[ァ-ヺー]+|[一-鿿々]+|\S"}
"""A unit that is linked where words are not separated; links are written for its characters."""
_AROUND = re.compile(r"^\W+(?=.)|(?<=.)\W+$")


def write(
    paths: Sequence[Path], code: str, pairs: Sequence[Sentence], tools: Path, parts: int = 1
) -> None:
    """Align all pairs, and write the speakable ones, up to the two numbers divided by ``parts``."""
    lines = [
        f"{pair.source}\t{pair.targets[code]}\t{links}\n"
        for pair, links in zip(pairs, align(code, pairs, tools), strict=True)
        if links and pair.speakable()
    ][: (CHOOSE + JUDGE) // parts]
    chosen = len(lines) * CHOOSE // (CHOOSE + JUDGE)
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, (lines[:chosen], lines[chosen:]), strict=True):
        path.write_text("".join(part), encoding="utf-8")


def align(code: str, pairs: Sequence[Sentence], tools: Path) -> list[str]:
    """Return the Pharaoh links of both directions, with the numbering of a pairs file."""
    if not (tools / "eflomal").is_dir():  # it is compiled
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tools]
        subprocess.run([*pip, "eflomal==2.0.0"], check=True)
    targets = [re.findall(_UNITS.get(code, r"\S+"), pair.targets[code]) for pair in pairs]
    with TemporaryDirectory() as work:
        command = [sys.executable, tools / "bin/eflomal-align"]
        for option, side in (("-s", [pair.source.split() for pair in pairs]), ("-t", targets)):
            lines = (" ".join(_AROUND.sub("", unit.lower()) for unit in row) for row in side)
            (path := Path(work, option)).write_text("\n".join(lines) + "\n", encoding="utf-8")
            command += [option, path]
        ways = Path(work, "forward"), Path(work, "reverse")
        command += ["-f", ways[0], "-r", ways[1]]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tools)})
        both = zip(*(path.read_text().splitlines() for path in ways), strict=True)
        common = [{*forward.split()} & {*reverse.split()} for forward, reverse in both]
    found = []
    for links, units in zip(common, targets, strict=True):
        begins = [*accumulate((len(x) if code in _UNITS else 1 for x in units), initial=0)]
        pharaoh = sorted((int(i), int(j)) for i, j in (link.split("-") for link in links))
        spread = ((i, k) for i, j in pharaoh for k in range(begins[j], begins[j + 1]))
        found.append(" ".join(f"{i}-{k}" for i, k in spread))
    return found
