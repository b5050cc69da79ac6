"""Word alignments of all pairs, and their agreement with gold ones."""

from __future__ import annotations

from collections.abc import Sequence

from alignatt_agent.calibration.aligners import WordAligner
from alignatt_agent.calibration.pairs import PairError, SentencePair, digest_of
from alignatt_agent.calibration.recall import recall_all
from alignatt_agent.calibration.word_alignment import ErrorRate, Link, Links, format_pharaoh
from alignatt_agent.evaluation.cache import ResultCache, key_of


def align(
    aligner: WordAligner, pairs: Sequence[SentencePair], cache: ResultCache
) -> list[Links | PairError]:
    """Align all pairs and keep the links in ``cache``; those that are there are not asked again.

    Raises:
        AlignerError: no pair can be aligned, or the aligner gave up.
    """
    return recall_all(
        cache,
        _keys(aligner, pairs),
        lambda missing: (
            (missing[at], result) for at, result in aligner.align([pairs[i] for i in missing])
        ),
        "aligning words",
        whole=aligner.whole,
    )


def not_aligned(
    aligner: WordAligner, pairs: Sequence[SentencePair], cache: ResultCache
) -> list[SentencePair]:
    """Pairs whose links are not in ``cache`` yet."""
    keys = _keys(aligner, pairs)
    return [pair for pair, key in zip(pairs, keys, strict=True) if cache.get(key) is None]


def _keys(aligner: WordAligner, pairs: Sequence[SentencePair]) -> list[bytes]:
    texts = [
        repr((p.source, p.target, p.spans, format_pharaoh(p.gold) if p.gold else None))
        for p in pairs
    ]
    others = digest_of(texts) if aligner.whole else ""
    return [key_of("links", aligner.name, aligner.version, others, text) for text in texts]


def error_rate(
    pairs: Sequence[SentencePair], found: Sequence[Links | PairError]
) -> ErrorRate | None:
    """Compare links with gold ones over target words, punctuation left out.

    Returns:
        ``None`` when no pair has gold links, or the links are the gold ones.
    """
    if all(pair.gold in (None, links) for pair, links in zip(pairs, found, strict=True)):
        return None
    judged: list[tuple[frozenset[Link], Links]] = []
    for pair, links in zip(pairs, found, strict=True):
        if pair.gold is not None:
            words = {j for j in range(len(pair.spans)) if pair.is_word(j)}
            mine = links.at(words).possible if isinstance(links, Links) else frozenset()
            judged.append((mine, pair.gold.at(words)))
    return ErrorRate.over(judged) if any(gold.sure for _, gold in judged) else None
