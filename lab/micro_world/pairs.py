"""Draw calibration pairs of the micro world, for ``alignatt calibrate run --pairs micro:N``."""

from collections.abc import Sequence
from itertools import islice

from alignatt_agent.calibration.pairs import Pairs, PairsError, Span, make_pair
from alignatt_agent.config.languages import Language
from lab.micro_world.corpus import TARGETS, Side, sentences


def micro_pairs(count: int, seed: int, source: Language, target: Language) -> Pairs:
    """Draw sentences on which the models of the micro world were not trained."""
    if source.code != "en" or target.code not in TARGETS:
        raise PairsError(
            f"the micro world has en-{'/'.join(TARGETS)}, not {source.code}-{target.code}"
        )
    pairs = []
    for drawn in islice(sentences(seed, held_out=True), count):
        side = drawn.targets[target.code]
        spans: list[Span] | None = None
        align: Sequence[tuple[int, ...]] = side.align
        if target.spaced:
            spans = _spans(side.pieces)
        else:
            align = _align_of_characters(side)
        links = frozenset((word, unit) for unit, words in enumerate(align) for word in words)
        pair = make_pair(drawn.words, side.text, links, spaced=target.spaced, counted=spans)
        pairs.append(pair)
    return Pairs(f"micro:{count}:{seed}", tuple(pairs))


def _align_of_characters(side: Side) -> list[tuple[int, ...]]:
    """Give each character the links of its word, as in any file of Chinese pairs."""
    align = []
    for piece, words in zip(side.pieces, side.align, strict=True):
        characters = "".join(piece.split())
        align += [words] * len(characters)
    return align


def _spans(pieces: Sequence[str]) -> list[Span]:
    """Return the start and end of each piece in the joined text, without white space."""
    spans = []
    end = 0
    for piece in pieces:
        end += len(piece)
        spans.append((end - len(piece.lstrip()), end))
    return spans
