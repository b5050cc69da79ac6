"""Is the output in the language it should be in? Scripts first, then letter statistics."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping

from alignatt_agent.config.languages import language

SCRIPT_SHARE = 0.5
"""Share of the letters that have to be in the script of the language; names may be foreign."""

NGRAM = 3

_SCRIPTS: Mapping[str, frozenset[str]] = {
    "zh": frozenset({"CJK"}),
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "ko": frozenset({"HANGUL"}),
    "ru": frozenset({"CYRILLIC"}),
}
_LATIN = frozenset({"LATIN"})


def script_shares(text: str) -> dict[str, float]:
    """Return the share of each script among the letters of ``text``.

    A script is the first word of a character's Unicode name: ``LATIN``, ``CJK``, ``CYRILLIC``, ….
    """
    counts = Counter(
        unicodedata.name(char, "UNKNOWN").partition(" ")[0] for char in text if char.isalpha()
    )
    total = counts.total()
    return {script: count / total for script, count in counts.most_common()}


def similarity(text: str, other: str) -> float:
    """Cosine of the character-trigram counts of two texts: 0 nothing in common, 1 the same."""
    left, right = _ngrams(text), _ngrams(other)
    dot = sum(count * right[gram] for gram, count in left.items())
    norm = math.sqrt(_square(left) * _square(right))
    return dot / norm if norm else 0.0


def wrong_language(text: str, target: str, samples: Mapping[str, str]) -> str | None:
    """Say why ``text`` cannot be ``target``, or return ``None``.

    Args:
        text: output of a system.
        target: language code that it should be in.
        samples: text of known languages by code: the references of the dev set.
    """
    shares = script_shares(text)
    if not shares:
        return "there is not a single letter in it"
    expected = _SCRIPTS.get(target, _LATIN)
    share = sum(shares.get(script, 0.0) for script in expected)
    if share < SCRIPT_SHARE:
        script, most = next(iter(shares.items()))
        return (
            f"{most:.0%} of its letters are {script.title()}, {share:.0%} in the script of "
            f"{language(target).name}"
        )
    scores = {code: similarity(text, sample) for code, sample in samples.items()}
    if target not in scores:
        return None
    nearest = max(scores, key=lambda code: scores[code])
    if scores[nearest] > scores[target]:
        return (
            f"its letters resemble the {language(nearest).name} text of the dev set "
            f"({scores[nearest]:.2f}), not the {language(target).name} one ({scores[target]:.2f})"
        )
    return None


def _ngrams(text: str) -> Counter[str]:
    padded = f" {' '.join(text.lower().split())} "
    return Counter(padded[i : i + NGRAM] for i in range(len(padded) - NGRAM + 1))


def _square(counts: Counter[str]) -> int:
    return sum(count * count for count in counts.values())
