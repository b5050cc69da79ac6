"""Align the words of all pairs, with alignments from the file or from a chat model."""

import argparse
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from alignatt_agent.calibration.chat_model import ChatAligner
from alignatt_agent.calibration.pairs import CalibrationError, Links, PairError, SentencePair
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import Language
from alignatt_agent.evaluation.cache import ResultCache, key_of

GOLD = "alignments in the pairs file"


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of the aligner."""
    add = group.add_argument
    text = (
        "gold: use the alignments in the pairs file; openai: send requests to a chat model at an "
        "OpenAI-compatible endpoint; default gold"
    )
    add("--aligner", choices=("gold", "openai"), default="gold", help=text)
    add("--aligner-model", metavar="NAME", help="openai: name of the chat model")
    text = "openai: base URL, e.g. .../v1; the key is read from OPENAI_API_KEY"
    add("--endpoint", metavar="URL", help=text)
    text = "openai: prices in US dollars per million tokens sent and received, for the estimate"
    add("--price", type=float, nargs=2, metavar=("SENT", "RECEIVED"), help=text)
    add("--yes", action="store_true", help="openai: send the requests, which may cost money")


def build_aligner(
    arguments: argparse.Namespace, source: Language, target: Language
) -> ChatAligner | None:
    """Return the chosen aligner, or ``None`` for the alignments in the pairs file."""
    if arguments.aligner == "gold":
        return None
    if not arguments.endpoint or not arguments.aligner_model:
        raise ConfigError("--aligner openai needs --endpoint URL and --aligner-model NAME")
    return ChatAligner(
        url=arguments.endpoint,
        model=arguments.aligner_model,
        source=source.name,
        target=target.name,
        price=arguments.price,
    )


def align(
    aligner: ChatAligner | None, pairs: Sequence[SentencePair], cache: ResultCache
) -> list[Links | PairError]:
    """Align pairs that are not in ``cache``; without ``aligner``, return the pairs' own links."""
    if aligner is None:
        if not any(pair.gold for pair in pairs):
            raise CalibrationError(
                "the pairs have no alignments: add a column with Pharaoh alignments to the file "
                "(see docs/calibration.md), or use a chat model with --aligner openai"
            )
        # A file may align only some pairs; the others are skipped and counted.
        gold: list[Links | PairError] = []
        for pair in pairs:
            if pair.gold:
                gold.append(pair.gold)
            else:
                gold.append(PairError("no_gold"))
        return gold
    # Requests may cost money, so only missing links are requested.
    results: list[Any] = []
    missing: list[int] = []
    for place, pair in enumerate(pairs):
        links = cache.get(_key(aligner, pair))
        results.append(links)
        if links is None:
            missing.append(place)
    answers = aligner.align([pairs[place] for place in missing])
    progress = tqdm(answers, "aligning", len(missing))
    for place, links in zip(missing, progress, strict=True):
        results[place] = links
        # Server failures are not cached, so the next call requests these links again.
        if isinstance(links, PairError) and links.reason == "aligner_error":
            continue
        cache.put(_key(aligner, pairs[place]), links)
    return results


def not_aligned(
    aligner: ChatAligner, pairs: Sequence[SentencePair], cache: ResultCache
) -> list[SentencePair]:
    """Return the pairs whose links are not in ``cache``."""
    return [pair for pair in pairs if cache.get(_key(aligner, pair)) is None]


def _key(aligner: ChatAligner, pair: SentencePair) -> bytes:
    """Return the cache key of a pair's links; the alignments in the file do not change it."""
    text = repr((pair.source, pair.target, pair.spans))
    return key_of("links", aligner.name, aligner.version, text)
