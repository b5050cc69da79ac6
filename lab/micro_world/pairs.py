"""Draw calibration pairs of the micro world, for ``alignatt calibrate run --pairs micro:N``."""

from collections.abc import Sequence
from itertools import accumulate, islice

from alignatt_agent.calibration.pairs import Pairs, PairsError, Span, make_pair
from alignatt_agent.config.languages import Language
from lab.micro_world.corpus import TARGETS, sentences


def micro_pairs(count: int, seed: int, source: Language, target: Language) -> Pairs:
    """Draw sentences on which the models of the micro world were not trained."""
    if source.code != "en" or target.code not in TARGETS:
        raise PairsError(
            f"the micro world has en-{'/'.join(TARGETS)}, not {source.code}-{target.code}"
        )
    pairs = []
    for drawn in islice(sentences(seed, held_out=True), count):
        side = drawn.targets[target.code]
        # Chinese characters inherit the links of their word, as in any file of Chinese pairs.
        counted = _spans(side.pieces) if target.spaced else None
        aligned = [
            align
            for piece, align in zip(side.pieces, side.align, strict=True)
            for _ in range(1 if target.spaced else len("".join(piece.split())))
        ]
        links = frozenset((i, j) for j, align in enumerate(aligned) for i in align)
        pairs.append(
            make_pair(drawn.words, side.text, links, spaced=target.spaced, counted=counted)
        )
    return Pairs(f"micro:{count}:{seed}", tuple(pairs))


def _spans(pieces: Sequence[str]) -> list[Span]:
    """Return the start and end of each piece in the joined text, without white space."""
    ends = list(accumulate(map(len, pieces)))
    return [(end - len(piece.lstrip()), end) for piece, end in zip(pieces, ends, strict=True)]
