"""Which words of the live tail are committed: they are never heard again."""

from __future__ import annotations

from typing import Literal

from alignatt_agent.speech.hypothesis import ROUNDING_S, Hypothesis
from alignatt_agent.speech.sentences import ends_sentence, last_sentence_end

Rule = Literal["agreed", "ended"]

PAUSE_S = 1.0
"""A sentence end at which the speaker pauses is believed this long after its last word."""

AGREED_S = 0.5
"""... when hypotheses have agreed on it for so long.

Measured on words and pauses of a talk that the real models heard (48 words, pauses of up to 0.48 s
inside sentences, chunks of 250 ms) with a recogniser that puts a period wherever the audio ends:
9 false sentence ends with a pause of 0.5 s, 4 with 0.8 s, 1 with 1.0 s.
"""


def committed(tail: Hypothesis, rule: Rule, hold_back_s: float) -> int:
    """Return how many leading words end a sentence for good.

    Args:
        tail: the latest hypothesis.
        rule: ``agreed``: up to the last sentence end that two hypotheses agree on (the paper's).
            ``ended``: its words are also over and held back, and the next sentence has begun or
            the speaker pauses. The very last word is a guess, and so is that one has begun with it:
            two have to follow.
        hold_back_s: a word may be relied on this long after its end.
    """
    texts = tail.texts
    if rule == "agreed":
        return last_sentence_end(texts, tail.stable)
    for k in range(min(tail.stable, tail.ended(hold_back_s)), 0, -1):
        settled = k + 1 < len(texts) or _paused(tail, k - 1)
        if settled and ends_sentence(texts[k - 1], texts[k] if k < len(texts) else None):
            return k
    return 0


def _paused(tail: Hypothesis, word: int) -> bool:
    over, agreed = tail.at - tail.ends[word], tail.at - tail.since[word]
    return over >= PAUSE_S - ROUNDING_S and agreed >= AGREED_S - ROUNDING_S


def forced(tail: Hypothesis, hold_back_s: float, old: float) -> int:
    """Return how many leading words of a tail that is too long are committed unfinished.

    Those that two hypotheses agree on, and those that were over at ``old`` anyway. The last word is
    not among the former: cut off by the end of the audio, it seems to be over (in recorded ticks of
    the real models its end came up to 0.24 s too early), would be cut in two and heard again.
    """
    stable = min(tail.stable, tail.ended(hold_back_s), len(tail.words) - 1)
    return max(stable, sum(word.end <= old for word in tail.words))
