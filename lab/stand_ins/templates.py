"""Tokenizers with the chat formats of published families; the tests compare the text they write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from lab.stand_ins import random_models


class Family(NamedTuple):
    """Chat format of a family; ``specials`` are pad, end, begin, unknown, and marks, by id."""

    specials: list[str]
    stops: list[str]


FAMILIES: Mapping[str, Family] = {
    name: Family(**family) for name, family in random_models.TABLE["families"].items()
}
"""By architecture."""


def tokenizer(architecture: str) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with the chat format of a family."""
    return random_models.tokenizer(FAMILIES[architecture].specials, architecture)
