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
    names = source.name, target.name
    return ChatAligner(arguments.endpoint, arguments.aligner_model, *names, price=arguments.price)


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
        return [pair.gold or PairError("no_gold") for pair in pairs]
    keys = _keys(aligner, pairs)
    found: list[Any] = [cache.get(key) for key in keys]
    missing = [place for place, links in enumerate(found) if links is None]
    answers = aligner.align([pairs[place] for place in missing])
    for place, links in zip(missing, tqdm(answers, "aligning", len(missing)), strict=True):
        found[place] = links
        # Server failures are not cached, so the next call requests these links again.
        if not (isinstance(links, PairError) and links.reason == "aligner_error"):
            cache.put(keys[place], links)
    return found


def not_aligned(
    aligner: ChatAligner, pairs: Sequence[SentencePair], cache: ResultCache
) -> list[SentencePair]:
    """Return the pairs whose links are not in ``cache``."""
    keys = _keys(aligner, pairs)
    return [pair for pair, key in zip(pairs, keys, strict=True) if cache.get(key) is None]


def _keys(aligner: ChatAligner, pairs: Sequence[SentencePair]) -> list[bytes]:
    texts = [repr((pair.source, pair.target, pair.spans)) for pair in pairs]
    return [key_of("links", aligner.name, aligner.version, text) for text in texts]
