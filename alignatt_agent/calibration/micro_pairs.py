"""Pairs of the generated micro world with gold alignments, which only a checkout can make."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import Any

from alignatt_agent.calibration.pairs import Pairs, PairsError, make_pair
from alignatt_agent.calibration.word_alignment import Links
from alignatt_agent.config.languages import Language


def micro_pairs(count: int, seed: int, source: Language, target: Language) -> Pairs:
    """Draw sentences of the micro world that its models were never trained on.

    Raises:
        PairsError: the micro world does not have that direction, or this is no checkout.
    """
    corpus = _corpus()
    if source.code != "en" or target.code not in corpus.TARGETS:
        raise PairsError(
            f"the micro world has en-{'/'.join(corpus.TARGETS)}, not {source.code}-{target.code}"
        )
    pairs = []
    for number, drawn in enumerate(islice(corpus.sentences(seed, held_out=True), count), 1):
        side = drawn.targets[target.code]
        # Chinese characters inherit the links of their word, as in any file of Chinese pairs.
        words = side.pieces if target.spaced else None
        aligned = [
            align
            for piece, align in zip(side.pieces, side.align, strict=True)
            for _ in range(1 if target.spaced else len("".join(piece.split())))
        ]
        links = Links.of(
            {(align[0], j) for j, align in enumerate(aligned)},
            {(i, j) for j, align in enumerate(aligned) for i in align},
        )
        pairs.append(make_pair(number, drawn.words, side.text, words, links, spaced=target.spaced))
    return Pairs(f"micro:{count}:{seed}", tuple(pairs))


def _corpus() -> Any:
    # By its name: the maker of the micro world imports this package, lies beside it in a checkout,
    # and is not part of the wheel.
    try:
        return import_module("lab.micro_world.corpus")
    except ModuleNotFoundError:
        raise PairsError(
            "micro:N[:SEED] needs the generator in lab/micro_world/ of the repository: run from a "
            "checkout of alignatt_agent, or give a JSONL or TSV file of pairs"
        ) from None
