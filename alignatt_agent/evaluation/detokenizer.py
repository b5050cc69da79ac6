"""Lets Simulstream's scorers join units by the tokenizer of any checkpoint that is here.

They ask for the tokenizer of a processor, which models of text do not have, and would download
it. ``python -m alignatt_agent.evaluation.detokenizer ...`` is Simulstream's own latency scorer with
that one change.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def load_tokenizer(folder: str) -> Any:
    """Return the Transformers tokenizer in a folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def _build(config: SimpleNamespace) -> Callable[[list[str]], str]:
    join: Callable[[list[str]], str] = load_tokenizer(config.hf_model_name).convert_tokens_to_string
    return join


def take_any_tokenizer() -> None:
    """Change what ``detokenizer_type: hf`` means to the scorers of this process."""
    from simulstream.metrics import detokenizers

    detokenizers._DETOKENIZER_BUILDER_MAP["hf"] = _build


def main() -> None:
    """Run the official command line."""
    from simulstream.metrics.score_latency import cli_main

    take_any_tokenizer()
    cli_main()


if __name__ == "__main__":
    main()
