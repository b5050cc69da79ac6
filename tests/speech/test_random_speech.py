"""Properties of the live tail over random hypotheses."""

import math
import random
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.speech.sentence_commits import STANDS_S
from alignatt_agent.types import SAMPLE_RATE, Transcript, Word
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.speech import Settings, clock_audio
from tests.fakes.streams import speech_side

LEXICON = ["the", "cat", "sat.", "Dr.", "no?", "3.", "Then", "e.g.", "yes!”", "—"]


@dataclass
class Chaos:
    """Random hypotheses that often repeat the beginning of the last one; random times."""

    rng: random.Random
    texts: list[str] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        if self.rng.random() < 0.1:
            return Transcript(None)
        self.texts = self.texts[: self.rng.randint(0, len(self.texts) + 3)]
        self.texts = self.texts + self.rng.choices(LEXICON, k=self.rng.randint(0, 4))
        return Transcript(" ".join(self.texts))

    def align(self, audio, text, language):
        duration = audio.size / SAMPLE_RATE
        items, time = [], 0.0
        for word in text.split():
            if self.rng.random() < 0.1:
                continue
            start = time if self.rng.random() < 0.9 else self.rng.choice([-1.0, math.nan, 99.0])
            time += self.rng.random() * duration / len(self.texts) * 1.3
            items.append(AlignedItem(word.strip(".?!"), start, time))
        return items


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunks=st.lists(st.floats(0.0, 2.4), min_size=1, max_size=16),
    hold_back_ms=st.sampled_from([0, 250, 1000]),
    stable_only=st.booleans(),
    max_tail_s=st.sampled_from([5.0, 30.0]),
    commit=st.sampled_from(["agreed", "ended"]),
)
def test_random_hypotheses(seed, chunks, hold_back_ms, stable_only, max_tail_s, commit):
    """Two hypotheses share all committed words; times are ordered, and cost is bounded."""
    rng = random.Random(seed)
    chaos = Chaos(rng)
    config = Settings(
        hold_back_ms=hold_back_ms, stable_only=stable_only, max_tail_s=max_tail_s, commit=commit
    )
    tail = LiveTail(chaos, chaos, "en", config)
    opened = 0  # committed words of the open utterance
    live, latest = [], 0.0
    for seconds in chunks:
        before = [word.text for word in live[opened:]]
        size = int(seconds * SAMPLE_RATE)
        update = tail.push(np.full(size, 0.3, np.float32))
        now = tail.now
        assert tail.tail_s <= max_tail_s + 1e-3
        closed = [word for sentence in update.sentences for word in sentence]
        words = [*closed, *update.live.words]
        # Committed words never change, and times are ordered within the stream.
        assert [w.text for w in words[:opened]] == [w.text for w in live[:opened]]
        flat = [time for word in words for time in (word.start, word.end)]
        assert flat == sorted(flat)
        assert not flat or (flat[0] >= latest - 1e-9 and flat[-1] <= now)
        open_words = update.settled
        committed = [w.text for w in words[: len(closed) + open_words][opened:]]
        if committed != before[: len(committed)] and max_tail_s == 30.0:
            # Two hypotheses begin with the committed words, or the end persisted.
            assert commit == "ended"
            assert now - closed[-1].end >= STANDS_S - 1e-5
        chaos.texts = chaos.texts[len(committed) :] if committed else chaos.texts
        assert 0 <= open_words <= update.live.accessible <= len(update.live.words)
        ready = update.live.words[open_words : update.live.accessible]
        assert all(word.end <= now - hold_back_ms / 1000 + 1e-5 for word in ready)
        if stable_only and size:
            assert [word.text for word in ready] == before[len(committed) :][: len(ready)]
        if closed:
            latest = closed[-1].end
        live, opened = list(update.live.words), open_words
    remaining = tail.finish().sentences
    assert [w.text for s in remaining for w in s][:opened] == [w.text for w in live[:opened]]
    assert tail.finish().sentences == ()


def test_a_whole_file_in_one_chunk_is_heard_piece_by_piece():
    script = [Word(f"w{i}x.", i * 0.5, i * 0.5 + 0.4) for i in range(120)]
    tail = speech_side(script=script, max_tail_s=10.0)
    closed = [*tail.push(clock_audio(0, 60 * SAMPLE_RATE)).sentences, *tail.finish().sentences]
    assert [[word.text for word in sentence] for sentence in closed] == [[w.text] for w in script]
    assert max(end - begin for begin, end in tail._recognizer.spans) <= 15.0
