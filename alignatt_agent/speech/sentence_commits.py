"""Decide which words of the live tail are committed, that is, never transcribed again."""

from typing import Literal

from alignatt_agent.speech.hypothesis import ROUNDING_S, Hypothesis
from alignatt_agent.text.sentences import ends_after, last_sentence_end

Rule = Literal["agreed", "ended"]

PAUSE_S = 2.0
"""Seconds of silence after which a sentence end is accepted; two following words also suffice."""

AGREED_S = 0.5
"""Seconds for which hypotheses must agree on a sentence end that is followed by a pause.

Measured with words and pauses of recorded talks (210 sentence ends; 7 pauses inside sentences
exceed 1 s; the longest is 2.4 s). Like Qwen3-ASR-1.7B, the simulated recognizer ends 93 % of cut
sentences with a period. With chunks of 500 ms, a ``PAUSE_S`` of 1, 1.5 or 2 s results in 4.2, 1.4
or 0.9 false ends per 100 sentences. docs/evidence.md lists the costs.
"""

SILENT_S = 3.0
"""Seconds of pause that end any utterance, so that words invented in noise are also committed.

Pauses inside sentences are shorter (up to 2.4 s in the recorded talks).
"""

STANDS_S = 1.5
"""Seconds after which a sentence end with the same timestamp in two hypotheses is accepted, even if
they differ in earlier words. Otherwise, a word that keeps changing would delay later words.

Measured on 363 sentences with the embedded models and chunks of 500 ms. Without a limit, and with
2, 1.5 and 1 s, commits are delayed by 2.02, 2.02, 1.75 and 1.69 s (p95) or 2.95, 2.68, 2.60 and
2.63 s (p99). The word error rates are 4.57, 4.57, 4.57 and 4.84 %.
"""

SAME_S = 0.5
"""Maximum seconds between a sentence end's timestamps in two hypotheses; errors shift them."""


def committed(tail: Hypothesis, rule: Rule, hold_back_s: float, language: str = "en") -> int:
    """Return the number of leading words to commit, up to the end of a sentence.

    Args:
        tail: the latest hypothesis.
        rule: ``agreed`` commits up to the last sentence end that two hypotheses agree on (the
            paper's rule). ``ended`` also requires that these words ended at least ``hold_back_s``
            ago, and that a pause or two words of the next sentence follow, because the last word is
            a guess. A sentence end that persists (``STANDS_S``) needs no agreement on its words.
            After a long pause (``SILENT_S``), all words on which two hypotheses agree are
            committed, whether or not a sentence ends.
        hold_back_s: seconds from the end of a word until it is accessible.
        language: code of the spoken language.
    """
    texts = tail.texts
    if rule == "agreed":
        return last_sentence_end(texts, tail.stable, language)
    stable = tail.stable
    for count in range(tail.ended(hold_back_s), 0, -1):
        next_start = tail.at
        if count < len(texts):
            next_start = tail.words[count].start
        pause = next_start - tail.ends[count - 1]
        age = tail.at - tail.since[count - 1]
        agreed = count <= stable or _stands(tail, count - 1, language)
        paused = pause >= PAUSE_S - ROUNDING_S and age >= AGREED_S - ROUNDING_S
        # Two words of the next sentence must follow, because the last word is a guess.
        settled = paused or count + 1 < len(texts)
        if agreed and settled and ends_after(texts, count, language, ""):
            return count
        if count <= stable and pause >= SILENT_S - ROUNDING_S:
            return count
    return 0


def _stands(tail: Hypothesis, word: int, language: str) -> bool:
    """Return whether the previous hypothesis also has a sentence end at the end of ``word``."""
    end = tail.ends[word]
    if tail.at - end < STANDS_S - ROUNDING_S:
        return False
    previous_texts = [previous.text for previous in tail.previous]
    # The last word of the previous hypothesis is a guess.
    for count in range(1, len(previous_texts)):
        shift = abs(tail.previous[count - 1].end - end)
        if shift <= SAME_S and ends_after(previous_texts, count, language):
            return True
    return False


def overflow_commit(tail: Hypothesis, hold_back_s: float, old: float) -> int:
    """Return how many leading words of an overlong tail to commit in the middle of a sentence.

    These are the words that two hypotheses agree on, except the last one, and all words that ended
    by ``old``. A last word that is cut off by the end of the audio may look complete: in chunks
    recorded with the real models, its end timestamp was up to 0.24 s too early.
    """
    stable = min(tail.stable, tail.ended(hold_back_s), len(tail.words) - 1)
    old_words = sum(word.end <= old for word in tail.words)
    return max(stable, old_words)
