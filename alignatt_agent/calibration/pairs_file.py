"""Read calibration pairs from a file, or generate them in the micro world.

A pairs file is UTF-8 text with one tab-separated pair per line. Lines starting with # are skipped.
  SOURCE <tab> TARGET [<tab> ALIGNMENT]
  We train a model. <tab> Wir trainieren ein Modell. <tab> 0-0 1-1 2-2 3p2 3-3
ALIGNMENT contains Pharaoh pairs SOURCE-TARGET (p instead of - for a possible link). Both numbers
start at 0. They count words (with punctuation) separated by white space or, in languages without
spaces such as Chinese, Japanese and Thai, all characters except white space.
Files inside a dev set, and files that consist mostly of dev-set sentences, are rejected.
micro:N[:SEED] stands for N generated pairs of the micro world, with gold alignments.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.calibration.contamination import check_place
from alignatt_agent.calibration.pairs import (
    Links,
    PairError,
    Pairs,
    PairsError,
    SentencePair,
    make_pair,
)
from alignatt_agent.config.languages import Language

_LINK = re.compile(r"(\d+)[-p?](\d+)")

MICRO = re.compile(r"micro:(\d+)(?::(\d+))?")
MICRO_SEED = 77


def read_pairs(spec: str, source: Language, target: Language) -> Pairs:
    """Read the pairs in a file, or generate pairs for a ``spec`` such as ``micro:N[:SEED]``."""
    match = MICRO.fullmatch(spec)
    if match is not None:
        count = int(match[1])
        seed = int(match[2] or MICRO_SEED)
        return _generated(count, seed, source, target)
    path = Path(spec)
    if not path.is_file():
        raise PairsError(f"{spec} does not exist; expected a file of pairs, or micro:N[:SEED]")
    check_place(path)
    pairs: list[SentencePair] = []
    skipped: Counter[str] = Counter()
    # utf-8-sig skips a byte-order mark. One broken character must not end the run.
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            # Only the line break is removed, because a cell at the end may be empty.
            cells = line.rstrip("\r\n").split("\t")
            try:
                pair = _pair(cells, source, target)
            except PairError as error:
                skipped[error.reason] += 1
                continue
            pairs.append(pair)
    if not pairs:
        raise PairsError(f"{path} contains no usable pair; skipped: {dict(skipped) or 'nothing'}")
    return Pairs(path.name, tuple(pairs), skipped)


def _pair(cells: Sequence[str], source: Language, target: Language) -> SentencePair:
    if len(cells) < 2:
        raise PairError("malformed_line")
    words = cells[0].split()
    if not source.spaced:
        words = list("".join(words))  # every character is a word
    links: Links | None = None
    if len(cells) > 2 and cells[2].strip():
        links = parse_pharaoh(cells[2])
    return make_pair(words, cells[1], links, spaced=target.spaced)


def parse_pharaoh(text: str) -> Links:
    """Parse ``"0-0 1p2"``; keep both sure links (``-``) and possible links (``p`` or ``?``)."""
    links: set[tuple[int, int]] = set()
    for link in text.split():
        match = _LINK.fullmatch(link)
        if match is None:
            raise PairError("malformed_alignment")
        source_word = int(match[1])
        target_part = int(match[2])
        links.add((source_word, target_part))
    return frozenset(links)


def _generated(count: int, seed: int, source: Language, target: Language) -> Pairs:
    # The generator belongs to the repository, not to the wheel. This import is the one exception
    # to the contract that the package does not import lab/.
    try:
        from lab.micro_world.pairs import micro_pairs
    except ModuleNotFoundError:
        raise PairsError(
            "micro:N[:SEED] needs the generator in lab/micro_world of the repository: run from a "
            "checkout of alignatt_agent, or pass a file of pairs"
        ) from None
    return micro_pairs(count, seed, source, target)
