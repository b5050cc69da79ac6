"""The live tail: audio that is transcribed with every chunk until its words are committed.

All times are in seconds from the start of the stream.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.config.languages import language
from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.speech.commits import SILENT_S, committed, overflow_commit
from alignatt_agent.speech.first_heard import first_heard
from alignatt_agent.speech.hypothesis import ROUNDING_S, Hypothesis
from alignatt_agent.speech.recognizer import SHORTEST_S, PromptedRecognizer
from alignatt_agent.speech.sentences import last_sentence_end, split_sentences
from alignatt_agent.speech.waveform import (
    QUIET_RMS,
    SILENCE_RMS,
    Intake,
    audible,
    in_range,
    loudness,
    quietest,
)
from alignatt_agent.speech.word_times import Span, time_words
from alignatt_agent.types import SAMPLE_RATE, FloatArray, SourceView, SpeechUpdate, Transcript, Word
from alignatt_agent.types.engines import Aligner
from alignatt_agent.types.running_text import join_words, split_words
from alignatt_agent.types.stopwatch import Stopwatch

LOGGER = logging.getLogger(__name__)

SILENCE_KEPT_S = 0.5
"""Seconds of silence that are kept in the tail, for the onset of the next word."""

WORDLESS_KEPT_S = 5.0
"""Seconds of sound without words that are kept, so that noise is not transcribed repeatedly
(for 30 s of noise, Whisper took 1.5 s per chunk)."""

REFUSED = 2
"""Number of consecutive endless transcripts after which the tail is cut."""


class LiveTail:
    """Recognizes one stream; audio and sentences of a failed call are kept for the next call.

    Args:
        aligner: computes word timestamps; if ``None``, ``first_heard`` estimates them.
        language: code of the spoken language.
        context: names and terms of the talk.
        verify: whether the recognizer verifies the previous transcript; see ``DebugConfig``.

    Attributes:
        watch: measures the time of the recognizer and the aligner.
        on_hypothesis: receives new words before they are aligned or committed, and the number of
            words that will probably be accessible.
    """

    on_hypothesis: Callable[[SourceView], None] | None = None

    def __init__(
        self,
        recognizer: PromptedRecognizer,
        aligner: Aligner | None,
        language: str,
        config: SpeechConfig,
        watch: Stopwatch | None = None,
        context: str = "",
        verify: bool = True,
    ) -> None:
        self._recognizer = recognizer
        self._aligner = aligner
        self._language = language
        self._context = context
        self._config = config
        self._hold_back_s = config.hold_back_ms / 1000
        self._verify = verify
        self.watch = watch or Stopwatch()
        # The paper's rule does not use pauses.
        self._pause_s = SILENT_S - ROUNDING_S if config.commit == "ended" else math.inf
        self._split = partial(split_sentences, language=language, pause_s=self._pause_s)
        self._intake = Intake()
        self._inbox: deque[FloatArray] = deque()
        self._audio: FloatArray = np.zeros(0, dtype=np.float32)
        self._received = 0  # samples since the start of the stream
        self._heard = 0  # samples before the end of the latest hypothesis
        self._settled_s = 0.0  # end of the latest committed word
        self._open: list[Word] = []  # committed words whose sentence is still open
        self._tail = Hypothesis()
        self._missed = False  # the latest transcript of audible audio was empty
        self._dropping = False  # the latest chunk made the tail too long
        self._refused = 0  # consecutive transcripts that did not end
        self._transcripts: tuple[Transcript, ...] = ()  # transcripts since the last update
        self._closed: list[tuple[Word, ...]] = []

    @property
    def now(self) -> float:
        """Return the seconds of audio since the start of the stream."""
        return self._received / SAMPLE_RATE

    @property
    def tail_s(self) -> float:
        """Return the seconds of audio that will be transcribed again with the next chunk."""
        return self._audio.size / SAMPLE_RATE

    def push(self, chunk: npt.NDArray[Any]) -> SpeechUpdate:
        """Recognize one chunk, ``[samples]``, and return closed sentences and the open utterance.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the audio is kept for the next chunk.
        """
        samples = self._intake(chunk)
        # Pieces are longer than any client's chunk, so only input such as a whole file is split.
        piece = int(self._config.max_tail_s * SAMPLE_RATE / 2)
        self._inbox.extend(samples[i : i + piece] for i in range(0, samples.size, piece))
        self._take_inbox()
        return self._update()

    def finish(self) -> SpeechUpdate:
        """Close all sentences, even unfinished ones, and empty the tail; calls can be repeated."""
        self._take_inbox()
        if self._heard < self._received:
            self._transcribe()
        if self._refused:
            self._left_out(self.now - self._heard / SAMPLE_RATE)
        sentences, rest = self._split([*self._open, *self._tail.words], None)
        self._closed += [*sentences, tuple(rest)] if rest else sentences
        self._open, self._tail = [], Hypothesis()
        self._trim(self.now)
        return self._update()

    def _take_inbox(self) -> None:
        while self._inbox:
            piece = self._inbox.popleft()
            self._audio = np.concatenate([self._audio, piece])
            self._received += piece.size
            # The tail grows this long only if the recognizer fails repeatedly.
            self._trim(self.now - 2 * self._config.max_tail_s)
            if self.now >= self._config.min_start_s:
                self._transcribe()
                self._commit()
                self._cut_refused()
                self._bound()

    def _transcribe(self) -> None:
        """Replace the hypothesis of the tail; state changes only after the engines return."""
        text: str | None = ""
        audio = in_range(self._audio)
        level = loudness(audio)
        if self.tail_s >= SHORTEST_S and level >= SILENCE_RMS:
            with self.watch.stage("asr"):
                expected = join_words(self._tail.texts) if self._verify else ""
                heard = self._recognizer.transcribe(audio, self._language, self._context, expected)
            self._transcripts += (heard,)
            text = heard.text and heard.text.strip()
        if text is None:  # keep the last hypothesis, as if there were no new chunk
            self._refused += 1
            return
        self._refused = 0
        texts = split_words(text)
        if not texts:
            self._drop_silence(level)
            return
        if self._aligner is not None:  # without an aligner, timestamps take no time
            self._pass_on(texts)
        words, ends = self._time(audio, text, texts)
        if not words:
            self._drop_silence(level)
            return
        self._tail = self._tail.revised(words, ends, self.now, self._heard / SAMPLE_RATE)
        self._heard, self._missed = self._received, False

    def _time(
        self, audio: FloatArray, text: str, texts: Sequence[str]
    ) -> tuple[list[Word], list[float]]:
        """Return the words in the audio, and their end times, which may be after the audio's end.

        Words that an aligner finds in silence were invented and are omitted.
        """
        start, now, before = self._start, self.now, self._heard / SAMPLE_RATE
        if self._aligner is None:
            start = max(start, self._settled_s)
            spans, ends = first_heard(self._tail, texts, start, before, now)
            return self._words(text, [*zip(texts, spans, strict=True)]), ends
        with self.watch.stage("aligner"):
            items = self._aligner.align(audio, text, self._language)
        timed = zip(texts, audible(audio, time_words(texts, items, self.tail_s)), strict=True)
        kept = [(text, (start + span[0], start + span[1])) for text, span in timed if span]
        return self._words(text, kept), [end for _, (_, end) in kept]

    def _words(self, text: str, kept: Sequence[tuple[str, Span]]) -> list[Word]:
        """Limit times to the audio after the committed words, and keep the spaces in ``text``."""
        low, high, end = self._settled_s, self.now, 0
        words: list[Word] = []
        for word, span in kept:
            begin = text.index(word, end)
            end = begin + len(word)
            gap = text[begin - 1].isspace() if begin else language(self._language).spaced
            since, until = (min(max(time, low), high) for time in span)
            words.append(Word(word, since, until, " " * gap))
        return words

    def _pass_on(self, texts: Sequence[str]) -> None:
        """Pass new words to ``on_hypothesis``, unless they probably close a sentence."""
        closes = last_sentence_end(texts, len(texts) - 1, self._language)
        if self.on_hypothesis is not None and texts != self._tail.texts and not closes:
            ready = self._tail.probably_accessible(texts, self._config.stable_only)
            words = [Word(text, self.now, self.now) for text in texts]
            self.on_hypothesis(SourceView((*self._open, *words), len(self._open) + ready))

    def _drop_silence(self, level: float) -> None:
        """Drop silence; drop unstable words if two transcripts of louder audio in a row are empty.

        Words that two hypotheses agree on are committed, because they may already be translated.
        """
        self._heard = self._received
        if level < QUIET_RMS:
            self._tail, self._missed = Hypothesis(), False
            self._trim(self.now - SILENCE_KEPT_S)
        elif self._tail.words and not self._missed:
            self._missed = True
        else:
            if stable := self._tail.stable:
                self._settle(stable)
            self._tail, self._missed = Hypothesis(), True
            self._trim(self.now - WORDLESS_KEPT_S)

    def _commit(self) -> None:
        """Commit whole sentences, and words of a tail that is too long."""
        tail, limit = self._tail, self._config.max_tail_s
        count = committed(tail, self._config.commit, self._hold_back_s, self._language)
        rest = tail.words[count - 1].end if count else self._start
        if self.now - rest > limit:
            count = max(count, overflow_commit(tail, self._hold_back_s, self.now - limit / 2))
        if count:
            self._settle(count)

    def _settle(self, count: int) -> None:
        # Cut the tail at the quietest place before the next word, because timestamps have errors.
        # Remains of the last word make recognizers invent words (micro dev set, en-de: BLEU 70.6
        # with a cut at the word's end, 87.8 with a cut halfway to the next word) or shift later
        # words (by up to 1.1 s with a cut halfway).
        words = self._tail.words
        self._settled_s = words[count - 1].end
        end, follows = self._tail.border(count, exact=self._aligner is not None)
        begin = max(0, round((end - self._start) * SAMPLE_RATE))
        past = max(begin, round((follows - self._start) * SAMPLE_RATE))
        cut = self._start + quietest(self._audio, begin, past) / SAMPLE_RATE
        if cut <= self._start:  # Times are useless; do not transcribe committed words again.
            cut = self._start + (self._heard / SAMPLE_RATE - self._start) * count / len(words)
        self._open += words[:count]
        self._tail = self._tail.after(count)
        following = words[count].text if count < len(words) else ""
        sentences, self._open = self._split(self._open, following)
        self._closed += sentences
        self._trim(cut)

    def _cut_refused(self) -> None:
        """Cut a tail with endless transcripts after its words, or drop its beginning."""
        if self._refused < REFUSED:
            return
        if words := len(self._tail.words):
            self._refused = 0
            self._settle(overflow_commit(self._tail, self._hold_back_s, self._start) or words)
            return
        size = self._audio.size
        cut = self._start + quietest(self._audio, size // 6, size // 3) / SAMPLE_RATE
        self._left_out(cut - self._start)
        self._trim(cut)

    def _left_out(self, seconds: float) -> None:
        self._refused = 0
        LOGGER.warning("%.1f s of audio is dropped because its transcripts do not end", seconds)

    def _bound(self) -> None:
        """Keep the tail and the open utterance short; a long pause closes the utterance."""
        limit = self._config.max_tail_s
        too_long = self.tail_s > limit
        if too_long:
            wanted = min([self.now - limit / 2, *(word.start for word in self._tail.words[:1])])
            cut = max(wanted, self.now - limit)
            if not self._dropping:  # log once: music would repeat this with every chunk
                LOGGER.warning("audio without stable words is dropped; %g s are kept", limit)
            self._trim(cut)
        self._dropping = too_long
        if not self._open:
            return
        follows = self._tail.words[0].start if self._tail.words else self.now
        over = follows - self._open[-1].end >= self._pause_s
        if over or self._open[-1].end - self._open[0].start > limit:
            self._closed.append(tuple(self._open))
            self._open = []

    @property
    def _start(self) -> float:
        """Return the absolute time of the first sample of the tail."""
        return (self._received - self._audio.size) / SAMPLE_RATE

    def _trim(self, cut: float) -> None:
        """Drop the audio before the absolute time ``cut``."""
        drop = round(cut * SAMPLE_RATE) - (self._received - self._audio.size)
        if drop > 0:
            self._audio = self._audio[drop:].copy()

    def _update(self) -> SpeechUpdate:
        settled, tail = len(self._open), self._tail
        ready = settled + tail.accessible(self._hold_back_s, self._config.stable_only)
        live = SourceView((*self._open, *tail.words), ready)
        made, self._transcripts = self._transcripts, ()
        sentences, self._closed = tuple(self._closed), []
        return SpeechUpdate(sentences, live, settled, settled + tail.stable, made)
