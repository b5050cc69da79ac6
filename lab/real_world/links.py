"""Align the words of calibration pairs with eflomal (GPL-3), in a separate process and folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
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
    lines: list[str] = []
    for pair, links in zip(pairs, align(code, pairs, tools), strict=True):
        if links and pair.speakable():
            line = f"{pair.source}\t{pair.targets[code]}\t{links}\n"
            lines.append(line)
    lines = lines[: (CHOOSE + JUDGE) // parts]
    chosen = len(lines) * CHOOSE // (CHOOSE + JUDGE)
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, (lines[:chosen], lines[chosen:]), strict=True):
        path.write_text("".join(part), encoding="utf-8")


def align(code: str, pairs: Sequence[Sentence], tools: Path) -> list[str]:
    """Return the Pharaoh links of both directions, with the numbering of a pairs file."""
    if not (tools / "eflomal").is_dir():  # it is compiled
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tools]
        subprocess.run([*pip, "eflomal==2.0.0"], check=True)
    sources = [pair.source.split() for pair in pairs]
    targets = [re.findall(_UNITS.get(code, r"\S+"), pair.targets[code]) for pair in pairs]
    with TemporaryDirectory() as work:
        source_file = Path(work, "source")
        target_file = Path(work, "target")
        _write_units(source_file, sources)
        _write_units(target_file, targets)
        forward_file = Path(work, "forward")
        reverse_file = Path(work, "reverse")
        command = [sys.executable, tools / "bin/eflomal-align"]
        command += ["-s", source_file, "-t", target_file]
        command += ["-f", forward_file, "-r", reverse_file]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tools)})
        forward = forward_file.read_text().splitlines()
        reverse = reverse_file.read_text().splitlines()
    pharaoh = []
    for there, back, units in zip(forward, reverse, targets, strict=True):
        # A link is certain if it is found in both directions.
        links = set(there.split()) & set(back.split())
        pharaoh.append(_renumbered(links, units, by_character=code in _UNITS))
    return pharaoh


def _write_units(path: Path, sentences: Sequence[Sequence[str]]) -> None:
    """Write sentences for the aligner, in lower case and without punctuation around words."""
    with path.open("w", encoding="utf-8") as file:
        for units in sentences:
            bare = [_AROUND.sub("", unit.lower()) for unit in units]
            file.write(" ".join(bare) + "\n")


def _renumbered(links: Iterable[str], units: Sequence[str], by_character: bool) -> str:
    """Return sorted links; a link to a unit becomes one to each of its characters."""
    lengths = [len(unit) if by_character else 1 for unit in units]
    begins = list(accumulate(lengths, initial=0))
    pairs = sorted(tuple(map(int, link.split("-"))) for link in links)
    renumbered: list[str] = []
    for source, target in pairs:
        characters = range(begins[target], begins[target + 1])
        renumbered += [f"{source}-{character}" for character in characters]
    return " ".join(renumbered)
