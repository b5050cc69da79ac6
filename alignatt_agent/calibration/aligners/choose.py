"""Command-line options of the word aligners."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from alignatt_agent.calibration.aligners import AlignerError, Gold, WordAligner
from alignatt_agent.calibration.aligners.chat_model import Endpoint, EndpointAligner
from alignatt_agent.calibration.aligners.eflomal import EflomalAligner
from alignatt_agent.calibration.aligners.simalign import DEFAULT_MODEL, SimAligner
from alignatt_agent.calibration.pairs import Pairs
from alignatt_agent.config.languages import Language

ALIGNERS = ("gold", "eflomal", "simalign", "openai")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add everything that chooses an aligner."""
    group.add_argument(
        "--aligner",
        choices=ALIGNERS,
        default="gold",
        help="gold: those in the pairs file; eflomal: statistical, no weights (extra align); "
        "simalign: multilingual encoder (extra neural); openai: any OpenAI-compatible endpoint; "
        "default %(default)s",
    )
    group.add_argument(
        "--aligner-corpus", metavar="FILE", help="eflomal: further pairs to learn from"
    )
    group.add_argument(
        "--aligner-model",
        metavar="NAME",
        help=f"simalign: encoder, default {DEFAULT_MODEL}; openai: model name",
    )
    group.add_argument("--endpoint", metavar="URL", help="openai: base address, e.g. .../v1")
    group.add_argument(
        "--key-env",
        default="OPENAI_API_KEY",
        metavar="VARIABLE",
        help="openai: environment variable with the key; default %(default)s",
    )
    group.add_argument(
        "--timeout", type=float, default=60, metavar="S", help="openai: seconds per answer; 60"
    )
    group.add_argument("--retries", type=int, default=3, help="openai: further attempts; 3")
    group.add_argument("--parallel", type=int, default=4, help="openai: requests at a time; 4")
    group.add_argument(
        "--price",
        type=float,
        nargs=2,
        metavar=("SENT", "RECEIVED"),
        help="openai: US dollars per million tokens, for the estimate",
    )
    group.add_argument("--yes", action="store_true", help="openai: ask, whatever it costs")


def build_aligner(
    arguments: argparse.Namespace,
    source: Language,
    target: Language,
    read: Callable[[str], Pairs],
) -> WordAligner:
    """Return the chosen aligner.

    Args:
        arguments: parsed command line.
        source: source language.
        target: target language.
        read: reads further pairs by the name of their file.

    Raises:
        AlignerError: it cannot work here.
    """
    if arguments.aligner == "eflomal":
        corpus = arguments.aligner_corpus
        return EflomalAligner(read(corpus).pairs if corpus else ())
    if arguments.aligner == "simalign":
        return SimAligner(arguments.aligner_model or DEFAULT_MODEL)
    if arguments.aligner == "openai":
        if not arguments.endpoint or not arguments.aligner_model:
            raise AlignerError("--aligner openai needs --endpoint URL and --aligner-model NAME")
        endpoint = Endpoint(
            arguments.endpoint,
            arguments.aligner_model,
            arguments.key_env,
            arguments.timeout,
            arguments.retries,
            arguments.parallel,
        )
        price = tuple(arguments.price) if arguments.price else None
        return EndpointAligner(endpoint, source.name, target.name, price)
    return Gold()
