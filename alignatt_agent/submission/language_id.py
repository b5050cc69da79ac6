"""Is the output in the language it should be in? By letter statistics against the references."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from alignatt_agent.config.languages import language

NGRAM = 3


def similarity(text: str, other: str) -> float:
    """Cosine of the character-trigram counts of two texts: 0 nothing in common, 1 the same."""
    left, right = _ngrams(text), _ngrams(other)
    dot = sum(count * right[gram] for gram, count in left.items())
    norm = math.hypot(*left.values()) * math.hypot(*right.values())
    return dot / norm if norm else 0.0


def wrong_language(text: str, target: str, samples: Mapping[str, str]) -> str | None:
    """Say why ``text`` cannot be ``target``, or return ``None``.

    Args:
        text: output of a system.
        target: language code that it should be in.
        samples: text of known languages by code: the references of the dev set. Texts in
            different scripts share no trigram.
    """
    if not any(map(str.isalpha, text)):
        return "there is not a single letter in it"
    if target not in samples:
        return None
    scores = {code: similarity(text, sample) for code, sample in samples.items()}
    nearest = max(scores, key=lambda code: scores[code])
    name = language(target).name
    if scores[nearest] > scores[target]:
        return (
            f"its letters resemble the {language(nearest).name} text of the dev set "
            f"({scores[nearest]:.2f}), not the {name} one ({scores[target]:.2f})"
        )
    return None if scores[target] else f"it has no three letters of the dev set's {name} text"


def _ngrams(text: str) -> Counter[str]:
    padded = f" {' '.join(text.lower().split())} "
    return Counter(padded[i : i + NGRAM] for i in range(len(padded) - NGRAM + 1))
