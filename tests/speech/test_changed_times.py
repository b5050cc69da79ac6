"""Words are timed again only with a hypothesis that says something new."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, Word
from tests.fakes.models import Settings, clock_audio
from tests.speech.recognizer_errors import CHUNKS_MS, Vices, make_talk


@dataclass
class Counted(Vices):
    asked: int = 0

    def align(self, audio, text, language):
        self.asked += 1
        return super().align(audio, text, language)


def updates(models, seconds, chunk_ms, **options):
    tail = LiveTail(models, models, "en", Settings(**{"min_start_s": 2.0, **options}))
    total, step = int(seconds * SAMPLE_RATE), chunk_ms * SAMPLE_RATE // 1000
    found = [
        tail.push(clock_audio(begin, min(begin + step, total))) for begin in range(0, total, step)
    ]
    return [*found, tail.finish()]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk_ms=st.sampled_from(CHUNKS_MS),
    commit=st.sampled_from(["agreed", "ended"]),
    hold_back_ms=st.sampled_from([0, 250]),
    max_tail_s=st.sampled_from([5.0, 30.0]),
)
def test_what_is_heard_does_not_change(seed, chunk_ms, commit, hold_back_ms, max_tail_s):
    talk = make_talk(random.Random(seed), 4)
    options = {"commit": commit, "hold_back_ms": hold_back_ms, "max_tail_s": max_tail_s}
    whole, changed = (
        updates(Vices(talk, seed), talk[-1].end + 2, chunk_ms, align=align, **options)
        for align in ("whole", "changed")
    )
    assert rounded(whole) == rounded(changed)


def rounded(updates):
    """Times to 1 ms: the samples that were trimmed shift them by parts of one."""
    return [
        (
            [[(w.text, round(w.start, 3), round(w.end, 3)) for w in words] for words in found],
            update.live.accessible,
            update.settled,
            update.stable,
        )
        for update in updates
        for found in [[*update.sentences, update.live.words]]
    ]


def test_the_aligner_is_not_asked_while_nothing_new_is_said():
    words = [Word(f"w{i}e", 0.5 * i, 0.5 * i + 0.4) for i in range(6)]  # 2.9 s and a pause
    talk = [*words, Word("last", 6.0, 6.4)]
    # Until the last word has been over for 0.3 s, and not in the pauses behind it.
    for align, asked in (("whole", 25), ("changed", 9)):
        models = Counted(talk, period=0.0, guess=0.0, jitter_s=0.0)
        updates(models, 8.0, 250, align=align)
        assert models.asked == asked


def test_a_word_that_was_cut_is_timed_again():
    talk = [Word("w0e", 0.0, 2.0), Word("w1e", 2.0, 2.9)]
    models = Counted(talk, period=0.0, guess=0.0)
    update = updates(models, 4.0, 250)[-2]
    assert abs(update.live.words[-1].end - 2.9) < 0.05
