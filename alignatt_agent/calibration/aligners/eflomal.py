"""eflomal (Östling and Tiedemann, 2016): a Bayesian HMM aligner, no weights and no key.

Its program is run, not imported, so it may be installed wherever the PATH leads. It draws random
numbers from the system: two runs differ a little, so its links are kept beside the scores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from alignatt_agent.calibration.aligners import AlignerError, Alignment
from alignatt_agent.calibration.pairs import SentencePair, digest_of, source_pieces
from alignatt_agent.calibration.word_alignment import (
    Link,
    Links,
    grow_diag_final_and,
    parse_pharaoh,
)

PROGRAM = "eflomal-align"


class EflomalAligner:
    """Aligns both directions and symmetrises with grow-diag-final-and.

    Args:
        corpus: further pairs to learn word translations from; a few thousand help a lot.

    Raises:
        AlignerError: the program is not installed.
    """

    whole = True

    def __init__(self, corpus: Sequence[SentencePair] = ()) -> None:
        self._corpus = corpus
        places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        found = shutil.which(PROGRAM, path=os.pathsep.join(places))
        if found is None:
            raise AlignerError(
                f"{PROGRAM} is not installed; `pip install 'alignatt_agent[align]'` builds it "
                f"(a C compiler is needed), or install eflomal anywhere in the PATH"
            )
        self._program = found
        self.name = "eflomal, grow-diag-final-and"
        if corpus:
            digest = digest_of((pair.source, pair.target) for pair in corpus)
            self.name += f", {len(corpus)} further pairs sha256:{digest}"
        try:
            self.version = version("eflomal")
        except PackageNotFoundError:
            self.version = "unknown"

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Alignment]:
        """Align all pairs at once, see ``calibration.aligners.WordAligner``."""
        texts = [_texts(pair) for pair in (*pairs, *self._corpus)]
        with tempfile.TemporaryDirectory(prefix="eflomal-") as folder:
            forward, backward = (Path(folder) / f"{name}.links" for name in ("forward", "backward"))
            for name, side in (("source", 0), ("target", 1)):
                lines = "".join(" ".join(text[side]) + "\n" for text in texts)
                (Path(folder) / name).write_text(lines, encoding="utf-8")
            self._run(Path(folder), forward, backward)
            ahead, back = (_read(path, len(pairs)) for path in (forward, backward))
        for at, pair in enumerate(pairs):
            owners = source_pieces(pair.source)[1]
            links = grow_diag_final_and(ahead[at], back[at])
            yield at, Links.of((owners[i], j) for i, j in links)

    def _run(self, folder: Path, forward: Path, backward: Path) -> None:
        command = [self._program, "--overwrite", "--model", "3"]
        command += ["-s", str(folder / "source"), "-t", str(folder / "target")]
        command += ["-f", str(forward), "-r", str(backward)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not forward.is_file() or not backward.is_file():
            raise AlignerError(f"{PROGRAM} failed ({done.returncode}): {done.stderr[-500:]}")


def _texts(pair: SentencePair) -> tuple[list[str], list[str]]:
    """Tokens of both sides; eflomal splits its input at white space."""
    pieces, _ = source_pieces(pair.source)
    return pieces, ["".join(unit.split()) for unit in pair.units]


def _read(path: Path, count: int) -> list[set[Link]]:
    lines = path.read_text(encoding="utf-8").splitlines()[:count]
    if len(lines) < count:
        raise AlignerError(f"{PROGRAM} aligned {len(lines)} of {count} pairs")
    return [set(parse_pharaoh(line).sure) for line in lines]
