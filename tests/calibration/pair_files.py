"""Generated pairs of the micro world, written as users write theirs."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.calibration.pairs import SentencePair


def word_links(pair: SentencePair) -> set[tuple[int, int]]:
    """Return the links of target units that are more than punctuation."""
    return {(i, j) for i, j in pair.gold if any(map(str.isalnum, pair.units[j]))}


def pharaoh_column(pairs: Sequence[SentencePair], path: Path) -> str:
    """Write tab-separated pairs as another aligner would: whole words, marks attached."""
    lines = []
    for pair in pairs:
        word = r"\S+" if " " in pair.target else r"\S"  # Chinese: characters
        starts = [match.start() for match in re.finditer(word, pair.target)]
        word_of = [bisect_right(starts, begin) - 1 for begin, _ in pair.spans]
        links = sorted((i, word_of[j]) for i, j in word_links(pair))
        column = " ".join(f"{i}-{j}" for i, j in links)
        lines.append(f"{' '.join(pair.source)}\t{pair.target}\t{column}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
