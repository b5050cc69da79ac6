"""Decide which words of the live tail are committed, that is, never transcribed again."""

from typing import Literal

from alignatt_agent.speech.hypothesis import ROUNDING_S, Hypothesis
from alignatt_agent.speech.sentences import ends_after, last_sentence_end

Rule = Literal["agreed", "ended"]

PAUSE_S = 2.0
"""Silence after a sentence end before it is accepted; two following words also suffice."""

AGREED_S = 0.5
"""Seconds for which hypotheses must agree on a sentence end that is followed by a pause.

Measured on words and pauses of recorded talks: 210 sentence ends; 7 pauses inside sentences exceed
1 s, and the longest is 2.4 s. The recognizer ends 93 % of cuts with a period, as Qwen3-ASR-1.7B
does. False ends per 100 sentences with chunks of 500 ms, for 1, 1.5, 2 s: 4.2, 1.4, 0.9. The costs
are in docs/evidence.md.
"""

SILENT_S = 3.0
"""Pause that ends any utterance, so that words invented in noise do not wait for the next speech.

Pauses inside sentences are shorter (up to 2.4 s in the recorded talks).
"""

STANDS_S = 1.5
"""Seconds after which a sentence end with the same time in two hypotheses is accepted, even if they
differ in earlier words. Otherwise a word that changes every time would delay all later words.

Measured on 363 sentences of the embedded models, chunks of 500 ms; none, 2, 1.5, 1 s: commits after
the true end p95 2.02, 2.02, 1.75, 1.69 s, p99 2.95, 2.68, 2.60, 2.63 s; word errors 4.57, 4.57,
4.57, 4.84 %.
"""

SAME_S = 0.5
"""Largest difference of an end's time in two hypotheses; a wrong word shifts the alignment."""


def committed(tail: Hypothesis, rule: Rule, hold_back_s: float, language: str = "en") -> int:
    """Return the number of leading words to commit, up to the end of a sentence.

    Args:
        tail: the latest hypothesis.
        rule: ``agreed``: up to the last sentence end that two hypotheses agree on.
            This is the paper's rule. ``ended``: these words must also have ended, at least
            ``hold_back_s`` ago, and a pause or two words of the next sentence must follow: the
            last word is a guess. An end that persists (``STANDS_S``) needs no agreement on its
            words. After a long pause (``SILENT_S``), all words on which two hypotheses agree are
            committed, whether or not a sentence ends.
        hold_back_s: time from the end of a word until it is accessible.
        language: code of the spoken language.
    """
    texts = tail.texts
    if rule == "agreed":
        return last_sentence_end(texts, tail.stable, language)
    for k in range(tail.ended(hold_back_s), 0, -1):
        agreed = k <= tail.stable or _stands(tail, k - 1, language)
        pause = (tail.words[k].start if k < len(texts) else tail.at) - tail.ends[k - 1]
        paused = pause >= PAUSE_S - ROUNDING_S
        stood = tail.at - tail.since[k - 1] >= AGREED_S - ROUNDING_S
        settled = k + 1 < len(texts) or (paused and stood)
        if agreed and settled and ends_after(texts, k, language, ""):
            return k
        if k <= tail.stable and pause >= SILENT_S - ROUNDING_S:
            return k
    return 0


def _stands(tail: Hypothesis, word: int, language: str) -> bool:
    said, end = tail.previous, tail.ends[word]
    texts = [item.text for item in said]
    return tail.at - end >= STANDS_S - ROUNDING_S and any(
        abs(said[k - 1].end - end) <= SAME_S and ends_after(texts, k, language)
        for k in range(1, len(said))
    )


def overflow_commit(tail: Hypothesis, hold_back_s: float, old: float) -> int:
    """Return the number of leading words of an overlong tail to commit within a sentence.

    These are the words that two hypotheses agree on, without the last one, and all that ended by
    ``old``. A last word cut off by the end of the audio may look complete: in chunks recorded with
    the real models, its end was timed up to 0.24 s too early.
    """
    stable = min(tail.stable, tail.ended(hold_back_s), len(tail.words) - 1)
    return max(stable, sum(word.end <= old for word in tail.words))
