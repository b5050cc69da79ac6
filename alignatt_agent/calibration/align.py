"""Word alignments of all pairs, kept on disk, and their agreement with gold ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from alignatt_agent.calibration.aligners import WordAligner
from alignatt_agent.calibration.pairs import PairError, SentencePair, digest_of
from alignatt_agent.calibration.state import Journal
from alignatt_agent.calibration.word_alignment import ErrorRate, Links

_PASSING = ("aligner_error", "aligner_timeout")
"""Failures that say nothing about the pair: kept only once another pair was aligned."""


def align(
    aligner: WordAligner, pairs: Sequence[SentencePair], path: Path, *, restart: bool = False
) -> list[Links | PairError]:
    """Align all pairs and keep the links in ``path``; those that are there are not asked again.

    Raises:
        AlignerError: no pair can be aligned, or the aligner gave up.
        StateError: ``path`` holds links of other pairs or of another aligner.
    """
    journal = _journal(aligner, pairs, path, restart)
    missing = [i for i in range(len(pairs)) if str(i) not in journal]
    waiting: dict[str, Any] = {}
    with tqdm(total=len(pairs), initial=len(journal), desc="aligning words", unit="pair") as bar:
        for at, result in aligner.align([pairs[i] for i in missing]) if missing else ():
            waiting[str(missing[at])] = _as_json(result)
            bar.update()
            passing = isinstance(result, PairError) and result.reason in _PASSING
            if not (aligner.whole or passing):
                journal.put_all(waiting)
                waiting = {}
        journal.put_all(waiting)
    return [_from_json(journal.get(str(i))) for i in range(len(pairs))]


def not_aligned(
    aligner: WordAligner, pairs: Sequence[SentencePair], path: Path, *, restart: bool = False
) -> list[SentencePair]:
    """Pairs whose links are not in ``path`` yet.

    Raises:
        StateError: ``path`` holds links of other pairs or of another aligner.
    """
    if restart:
        return list(pairs)
    journal = _journal(aligner, pairs, path, restart)
    return [pair for i, pair in enumerate(pairs) if str(i) not in journal]


def _journal(
    aligner: WordAligner, pairs: Sequence[SentencePair], path: Path, restart: bool
) -> Journal:
    # The order of a set of links changes from process to process.
    gold = [sorted(p.gold.possible) if p.gold else None for p in pairs]
    digest = digest_of((p.source, p.target, p.spans, g) for p, g in zip(pairs, gold, strict=True))
    identity = {"aligner": aligner.name, "version": aligner.version, "pairs": digest}
    return Journal(path, identity, restart=restart)


def error_rate(
    pairs: Sequence[SentencePair], found: Sequence[Links | PairError]
) -> ErrorRate | None:
    """Compare links with gold ones over target words, punctuation left out.

    Returns:
        ``None`` when no pair has gold links, or the links are the gold ones.
    """
    rate = ErrorRate()
    same = True
    for pair, links in zip(pairs, found, strict=True):
        if pair.gold is None:
            continue
        words = {j for j in range(len(pair.spans)) if pair.is_word(j)}
        sure, possible = (
            {link for link in kind if link[1] in words}
            for kind in (pair.gold.sure, pair.gold.possible)
        )
        mine = links.possible if isinstance(links, Links) else frozenset()
        same = same and isinstance(links, Links) and links == pair.gold
        rate = rate.add(frozenset(x for x in mine if x[1] in words), Links.of(sure, possible))
    return None if same or not rate.sure else rate


def _as_json(result: Links | PairError) -> Any:
    if isinstance(result, PairError):
        return {"reason": result.reason, "detail": str(result)}
    return [sorted(result.sure), sorted(result.possible - result.sure)]


def _from_json(value: Any) -> Links | PairError:
    if isinstance(value, dict):
        return PairError(value["reason"], value["detail"])
    sure, possible = ([(i, j) for i, j in links] for links in value)
    return Links.of(sure, possible)
