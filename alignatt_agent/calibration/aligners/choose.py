"""Command-line options of the word aligners."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from alignatt_agent.calibration.aligners import AlignerError, Gold, WordAligner
from alignatt_agent.calibration.aligners.chat_model import ChatAligner
from alignatt_agent.calibration.aligners.eflomal import EflomalAligner
from alignatt_agent.calibration.aligners.simalign import DEFAULT_MODEL, SimAligner
from alignatt_agent.calibration.pairs import Pairs
from alignatt_agent.config.languages import Language

ALIGNERS = ("gold", "eflomal", "simalign", "openai")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add everything that chooses an aligner."""
    add = group.add_argument
    text = (
        "gold: those in the pairs file; eflomal: statistical, no weights (extra align); simalign: "
        "multilingual encoder (extra neural); openai: any OpenAI-compatible endpoint; default gold"
    )
    add("--aligner", choices=ALIGNERS, default="gold", help=text)
    add("--aligner-corpus", metavar="FILE", help="eflomal: further pairs to learn from")
    text = f"simalign: encoder, default {DEFAULT_MODEL}; openai: model name"
    add("--aligner-model", metavar="NAME", help=text)
    add("--endpoint", metavar="URL", help="openai: base address, e.g. .../v1")
    text = "openai: environment variable with the key; default %(default)s"
    add("--key-env", default="OPENAI_API_KEY", metavar="VARIABLE", help=text)
    add("--timeout", type=float, default=60, metavar="S", help="openai: seconds per answer; 60")
    add("--retries", type=int, default=3, help="openai: further attempts; 3")
    add("--parallel", type=int, default=4, help="openai: requests at a time; 4")
    text = "openai: US dollars per million tokens, for the estimate"
    add("--price", type=float, nargs=2, metavar=("SENT", "RECEIVED"), help=text)
    add("--yes", action="store_true", help="openai: ask, whatever it costs")


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
    model = arguments.aligner_model
    if arguments.aligner == "eflomal":
        corpus = arguments.aligner_corpus
        return EflomalAligner(read(corpus).pairs if corpus else ())
    if arguments.aligner == "simalign":
        return SimAligner(model or DEFAULT_MODEL)
    if arguments.aligner == "openai":
        if not arguments.endpoint or not model:
            raise AlignerError("--aligner openai needs --endpoint URL and --aligner-model NAME")
        return ChatAligner(
            arguments.endpoint,
            model,
            source.name,
            target.name,
            key_variable=arguments.key_env,
            timeout_s=arguments.timeout,
            retries=arguments.retries,
            parallel=arguments.parallel,
            price=arguments.price,
        )
    return Gold()
