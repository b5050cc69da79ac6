"""The live tail: audio that is transcribed with every chunk until its words are committed.

All times are in seconds from the start of the stream.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from alignatt_agent.config.languages import language
from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.speech.first_heard import first_heard
from alignatt_agent.speech.hypothesis import ROUNDING_S, Hypothesis
from alignatt_agent.speech.recognizer import SHORTEST_S
from alignatt_agent.speech.sentence_commits import SILENT_S, committed, overflow_commit
from alignatt_agent.speech.tail_state import TailState
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
from alignatt_agent.text.running_text import join_words, split_words
from alignatt_agent.text.sentences import last_sentence_end, split_sentences
from alignatt_agent.types import SAMPLE_RATE, FloatArray, SourceView, SpeechUpdate, Transcript, Word
from alignatt_agent.types.engines import Aligner, Recognizer
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

    Each step computes a new ``TailState``. A step that fails leaves the state from before the
    engine's call, which already contains the audio.

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
        recognizer: Recognizer,
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
        self._pause_s = math.inf
        if config.commit == "ended":
            self._pause_s = SILENT_S - ROUNDING_S
        self._split = partial(split_sentences, language=language, pause_s=self._pause_s)
        self._intake = Intake()
        self._state = TailState()

    @property
    def now(self) -> float:
        """Return the seconds of audio since the start of the stream."""
        return self._state.now

    @property
    def tail_s(self) -> float:
        """Return the seconds of audio that will be transcribed again with the next chunk."""
        return self._state.tail_s

    def push(self, chunk: npt.NDArray[Any]) -> SpeechUpdate:
        """Recognize one chunk, ``[samples]``, and return closed sentences and the open utterance.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the audio is kept for the next chunk.
        """
        samples = self._intake(chunk)
        # Pieces are longer than any client's chunk, so only input such as a whole file is split.
        longest = int(self._config.max_tail_s * SAMPLE_RATE / 2)
        pieces = [samples[at : at + longest] for at in range(0, samples.size, longest)]
        self._state = replace(self._state, inbox=(*self._state.inbox, *pieces))
        self._take_inbox()
        return self._update()

    def finish(self) -> SpeechUpdate:
        """Close all sentences, even unfinished ones, and empty the tail; calls can be repeated."""
        self._take_inbox()
        state = self._state
        # A talk shorter than ``min_start_s`` and audio of an endless transcript have no words yet.
        if state.heard < state.received:
            state = self._transcribe(state)
        if state.refused:
            _warn_of_dropped_audio(state.now - state.heard_s)
            state = replace(state, refused=0)
        sentences, rest = self._split([*state.open_words, *state.hypothesis.words], None)
        if rest:
            sentences.append(tuple(rest))
        state = replace(
            state,
            closed=(*state.closed, *sentences),
            open_words=(),
            hypothesis=Hypothesis(),
        )
        self._state = state.trimmed(state.now)
        return self._update()

    def _take_inbox(self) -> None:
        while self._state.inbox:
            state = self._state.with_next_piece()
            # The tail grows this long only if the recognizer fails repeatedly.
            state = state.trimmed(state.now - 2 * self._config.max_tail_s)
            # From here, a failure of an engine cannot lose the piece.
            self._state = state
            if state.now >= self._config.min_start_s:
                state = self._transcribe(state)
                state = self._commit(state)
                state = self._cut_refused(state)
                self._state = self._bound(state)

    def _transcribe(self, state: TailState) -> TailState:
        """Replace the hypothesis of the tail; it changes only after the engines return."""
        audio = in_range(state.audio)
        level = loudness(audio)
        text: str | None = ""
        if state.tail_s >= SHORTEST_S and level >= SILENCE_RMS:
            transcript = self._recognize(state, audio)
            state = replace(state, transcripts=(*state.transcripts, transcript))
            text = transcript.text
        if text is None:
            # Keep the last hypothesis, as if there were no new chunk.
            return replace(state, refused=state.refused + 1)
        state = replace(state, refused=0)
        # The costs of the transcript are reported even if the aligner fails.
        self._state = state
        text = text.strip()
        texts = split_words(text)
        if not texts:
            return self._drop_silence(state, level)
        # Without an aligner, timestamps take no time, so drafting ahead would save none.
        if self._aligner is not None:
            self._pass_on(state, texts)
        words, ends = self._time(state, audio, text, texts)
        if not words:
            return self._drop_silence(state, level)
        hypothesis = state.hypothesis.revised(words, ends, at=state.now, before=state.heard_s)
        return replace(state, hypothesis=hypothesis, heard=state.received, missed=False)

    def _recognize(self, state: TailState, audio: FloatArray) -> Transcript:
        with self.watch.stage("asr"):
            expected = ""
            if self._verify:
                expected = join_words(state.hypothesis.texts)
            return self._recognizer.transcribe(audio, self._language, self._context, expected)

    def _time(
        self, state: TailState, audio: FloatArray, text: str, texts: Sequence[str]
    ) -> tuple[list[Word], list[float]]:
        """Return the words in the audio, and their end times, which may be after the audio's end.

        Words that an aligner finds in silence were invented and are omitted.
        """
        if self._aligner is None:
            start = max(state.start, state.settled_s)
            spans, ends = first_heard(
                state.hypothesis, texts, start=start, before=state.heard_s, now=state.now
            )
            return self._words(state, text, texts, spans), ends
        with self.watch.stage("aligner"):
            items = self._aligner.align(audio, text, self._language)
        word_spans = time_words(texts, items, state.tail_s)
        audible_texts: list[str] = []
        spans = []
        ends = []
        for word, span in zip(texts, audible(audio, word_spans), strict=True):
            if span is None:
                continue
            start, end = span
            audible_texts.append(word)
            spans.append((state.start + start, state.start + end))
            ends.append(state.start + end)
        return self._words(state, text, audible_texts, spans), ends

    def _words(
        self, state: TailState, text: str, texts: Sequence[str], spans: Sequence[Span]
    ) -> list[Word]:
        """Limit times to the audio after the committed words, and keep the spaces in ``text``."""
        words: list[Word] = []
        text_end = 0
        for word, (start, end) in zip(texts, spans, strict=True):
            text_begin = text.index(word, text_end)
            text_end = text_begin + len(word)
            if text_begin > 0:
                spaced = text[text_begin - 1].isspace()
            else:
                spaced = language(self._language).spaced
            start = min(max(start, state.settled_s), state.now)
            end = min(max(end, state.settled_s), state.now)
            words.append(Word(word, start, end, gap=" " * spaced))
        return words

    def _pass_on(self, state: TailState, texts: Sequence[str]) -> None:
        """Pass new words to ``on_hypothesis``, unless they probably close a sentence."""
        if self.on_hypothesis is None or texts == state.hypothesis.texts:
            return
        if last_sentence_end(texts, len(texts) - 1, self._language):
            return
        ready = state.hypothesis.probably_accessible(texts, self._config.stable_only)
        # The aligner has not yet measured the times.
        words = [Word(text, state.now, state.now) for text in texts]
        accessible = len(state.open_words) + ready
        self.on_hypothesis(SourceView((*state.open_words, *words), accessible))

    def _drop_silence(self, state: TailState, level: float) -> TailState:
        """Drop silence; drop unstable words if two transcripts of louder audio in a row are empty.

        Words that two hypotheses agree on are committed, because they may already be translated.
        """
        state = replace(state, heard=state.received)
        if level < QUIET_RMS:
            state = replace(state, hypothesis=Hypothesis(), missed=False)
            return state.trimmed(state.now - SILENCE_KEPT_S)
        # One empty transcript of audible audio may be an error of the recognizer.
        if state.hypothesis.words and not state.missed:
            return replace(state, missed=True)
        stable = state.hypothesis.stable
        if stable:
            state = self._settle(state, stable)
        state = replace(state, hypothesis=Hypothesis(), missed=True)
        return state.trimmed(state.now - WORDLESS_KEPT_S)

    def _commit(self, state: TailState) -> TailState:
        """Commit whole sentences, and words of a tail that is too long."""
        hypothesis = state.hypothesis
        limit = self._config.max_tail_s
        count = committed(hypothesis, self._config.commit, self._hold_back_s, self._language)
        rest_start = state.start
        if count:
            rest_start = hypothesis.words[count - 1].end
        if state.now - rest_start > limit:
            old = state.now - limit / 2
            count = max(count, overflow_commit(hypothesis, self._hold_back_s, old))
        if count:
            return self._settle(state, count)
        return state

    def _settle(self, state: TailState, count: int) -> TailState:
        """Commit the first ``count`` words, and cut the audio behind them."""
        # Cut the tail at the quietest place before the next word, because timestamps have errors.
        # Remains of the last word make recognizers invent words (micro dev set, en-de: BLEU 70.6
        # with a cut at the word's end, 87.8 with a cut halfway to the next word) or shift later
        # words (by up to 1.1 s with a cut halfway).
        hypothesis = state.hypothesis
        words = hypothesis.words
        end, next_start = hypothesis.border(count, exact=self._aligner is not None)
        begin = max(0, round((end - state.start) * SAMPLE_RATE))
        past = max(begin, round((next_start - state.start) * SAMPLE_RATE))
        cut = state.start + quietest(state.audio, begin, past) / SAMPLE_RATE
        if cut <= state.start:
            # Times are useless; do not transcribe committed words again.
            share = (state.heard_s - state.start) * count / len(words)
            cut = state.start + share
        following = ""
        if count < len(words):
            following = words[count].text
        sentences, rest = self._split([*state.open_words, *words[:count]], following)
        state = replace(
            state,
            settled_s=words[count - 1].end,
            open_words=tuple(rest),
            hypothesis=hypothesis.after(count),
            closed=(*state.closed, *sentences),
        )
        return state.trimmed(cut)

    def _cut_refused(self, state: TailState) -> TailState:
        """Cut a tail with endless transcripts after its words, or drop its beginning."""
        if state.refused < REFUSED:
            return state
        state = replace(state, refused=0)
        word_count = len(state.hypothesis.words)
        if word_count:
            count = overflow_commit(state.hypothesis, self._hold_back_s, state.start)
            return self._settle(state, count or word_count)
        size = state.audio.size
        cut = state.start + quietest(state.audio, size // 6, size // 3) / SAMPLE_RATE
        _warn_of_dropped_audio(cut - state.start)
        return state.trimmed(cut)

    def _bound(self, state: TailState) -> TailState:
        """Keep the tail and the open utterance short; a long pause closes the utterance."""
        limit = self._config.max_tail_s
        live_words = state.hypothesis.words
        too_long = state.tail_s > limit
        if too_long:
            # Music would repeat this warning with every chunk.
            if not state.dropping:
                LOGGER.warning("audio without stable words is dropped; %g s are kept", limit)
            cut = state.now - limit / 2
            if live_words:
                cut = min(cut, live_words[0].start)
            state = state.trimmed(max(cut, state.now - limit))
        state = replace(state, dropping=too_long)
        utterance = state.open_words
        if not utterance:
            return state
        next_start = state.now
        if live_words:
            next_start = live_words[0].start
        begin = utterance[0].start
        end = utterance[-1].end
        paused = next_start - end >= self._pause_s
        if paused or end - begin > limit:
            return replace(state, closed=(*state.closed, utterance), open_words=())
        return state

    def _update(self) -> SpeechUpdate:
        """Return the words of the state; sentences and transcripts are returned only once."""
        state = self._state
        self._state = replace(state, transcripts=(), closed=())
        hypothesis = state.hypothesis
        settled = len(state.open_words)
        ready = hypothesis.accessible(self._hold_back_s, self._config.stable_only)
        return SpeechUpdate(
            sentences=state.closed,
            live=SourceView((*state.open_words, *hypothesis.words), accessible=settled + ready),
            settled=settled,
            stable=settled + hypothesis.stable,
            transcripts=state.transcripts,
        )


def _warn_of_dropped_audio(seconds: float) -> None:
    LOGGER.warning("%.1f s of audio is dropped because its transcripts do not end", seconds)
