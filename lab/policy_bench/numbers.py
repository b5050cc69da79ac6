"""Check numbers in translations of 40 sentences: a number that is emitted early stays wrong."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).with_suffix(".yaml")
SENTENCES: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
"""The sentences of ``numbers.yaml``."""


def is_right(text: str, sentence: Mapping[str, Any], target: str) -> bool:
    """Return whether a translation contains the number of a sentence, in digits or in words."""
    plain = _plain(text)
    for option in (*sentence["digits"], *sentence.get(target, ())):
        parts = option.split("&")
        if all(_contains(plain, part) for part in parts):
            return True
    return False


def _contains(plain: str, part: str) -> bool:
    pattern = re.escape(_plain(part))
    # A number is not a part of a longer number, and a German number word may be part of a word.
    return bool(re.search(rf"(?<!\d){pattern}(?!\d)", plain))


def _plain(text: str) -> str:
    return text.casefold().replace("ß", "ss")


def late_faults(
    streamed: Sequence[str], offline: Sequence[str], target: str
) -> dict[str, list[int]]:
    """Return the sentences whose number is wrong off-line, and those that only streaming changes.

    ``stream_only`` lists sentences that are right off-line and wrong in ``streamed``.
    """
    wrong: dict[str, list[int]] = {"offline": [], "stream_only": []}
    for place, sentence in enumerate(SENTENCES):
        if not is_right(offline[place], sentence, target):
            wrong["offline"].append(place)
        elif not is_right(streamed[place], sentence, target):
            wrong["stream_only"].append(place)
    return wrong
