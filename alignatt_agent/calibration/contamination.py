"""Exclude evaluation data from calibration.

Scores are meaningless on data that was used to choose heads. A file is evaluation data if it is in
a dev set, or if most of its sentences are in a dev set. Individual sentences of a dev set are
dropped and counted.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.calibration.pairs import Pairs, PairsError, SentencePair
from alignatt_agent.config.resources import find_path, read_lines
from alignatt_agent.evaluation.segments import SEGMENTATION

EMBEDDED_DEVSET = "micro_models/devset"
_REFUSED_SHARE = 0.5


def refuse(path: Path, why: str) -> PairsError:
    """Return the error for a file that is evaluation data."""
    return PairsError(
        f"{path} is evaluation data: {why}. Heads chosen on this file would raise all scores "
        f"measured on it; calibrate on other parallel text"
    )


def check_place(path: Path) -> None:
    """Reject a file inside a dev set."""
    # The files of a dev set are in subfolders, e.g. ref/de.txt.
    for folder in list(path.resolve().parents)[:3]:
        if (folder / SEGMENTATION).is_file():
            raise refuse(path, f"it is in the dev set {folder.name}, which contains {SEGMENTATION}")


def known_sentences(devsets: Sequence[Path]) -> frozenset[str]:
    """Return the normalized sentences of ``devsets`` and of the embedded dev set."""
    folders = list(devsets)
    with contextlib.suppress(FileNotFoundError):  # the wheel does not contain the embedded dev set
        folders.append(find_path(EMBEDDED_DEVSET))
    sentences: set[str] = set()
    for folder in folders:
        texts = sorted((folder / "ref").glob("*.txt"))
        if not texts:
            raise PairsError(f"{folder} is not a dev set: expected ref/LANGUAGE.txt")
        for text in texts:
            for line in read_lines(text):
                sentences.add(_plain(line))
    # Lines of marks alone would exclude all pairs with a side of marks alone.
    sentences.discard("")
    return frozenset(sentences)


def leave_out(pairs: Pairs, known: frozenset[str]) -> Pairs:
    """Drop pairs with a ``known`` source or target; reject a file of mostly known pairs."""
    clean: list[SentencePair] = []
    for pair in pairs.pairs:
        source = _plain(" ".join(pair.source))
        target = _plain(pair.target)
        # One side suffices: a reference may occur with another source, e.g. a paraphrase.
        if source not in known and target not in known:
            clean.append(pair)
    count = len(pairs.pairs)
    dropped = count - len(clean)
    if dropped > _REFUSED_SHARE * max(1, count):
        raise refuse(Path(pairs.name), f"{dropped} of its {count} pairs are in a dev set")
    return pairs.keeping(clean, "in_evaluation_data")


def _plain(text: str) -> str:
    """Return the letters and digits of a text, case-folded."""
    # A copy of a dev set often differs in case, quotation marks and spaces.
    return "".join(char for char in text.casefold() if char.isalnum())
