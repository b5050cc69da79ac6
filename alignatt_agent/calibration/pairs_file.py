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
from importlib import import_module
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
        return _generated(int(match[1]), int(match[2] or MICRO_SEED), source, target)
    path = Path(spec)
    if not path.is_file():
        raise PairsError(f"{spec} does not exist; expected a file of pairs, or micro:N[:SEED]")
    check_place(path)
    pairs: list[SentencePair] = []
    skipped: Counter[str] = Counter()
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            try:
                pairs.append(_pair(line.rstrip("\r\n").split("\t"), source, target))
            except PairError as error:
                skipped[error.reason] += 1
    if not pairs:
        raise PairsError(f"{path} contains no usable pair; skipped: {dict(skipped) or 'nothing'}")
    return Pairs(path.name, tuple(pairs), skipped)


def _pair(cells: Sequence[str], source: Language, target: Language) -> SentencePair:
    if len(cells) < 2:
        raise PairError("malformed_line")
    words = cells[0].split()
    links = parse_pharaoh(cells[2]) if "".join(cells[2:3]).strip() else None
    return make_pair(
        words if source.spaced else list("".join(words)), cells[1], links, spaced=target.spaced
    )


def parse_pharaoh(text: str) -> Links:
    """Parse ``"0-0 1p2"``; keep both sure links (``-``) and possible links (``p`` or ``?``)."""
    found = [_LINK.fullmatch(item) for item in text.split()]
    if None in found:
        raise PairError("malformed_alignment")
    return frozenset((int(match[1]), int(match[2])) for match in found if match)


def _generated(count: int, seed: int, source: Language, target: Language) -> Pairs:
    try:  # imported by name, because the wheel does not contain the generator
        generator = import_module("lab.micro_world.pairs")
    except ModuleNotFoundError:
        raise PairsError(
            "micro:N[:SEED] needs the generator in lab/micro_world of the repository: run from a "
            "checkout of alignatt_agent, or pass a file of pairs"
        ) from None
    drawn: Pairs = generator.micro_pairs(count, seed, source, target)
    return drawn
