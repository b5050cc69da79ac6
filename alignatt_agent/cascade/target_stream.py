"""Translate recognized words into append-only units of one target language."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress

from alignatt_agent.translation.captions import Captions
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import Emission, GatedDraft, SourceView, SpeechUpdate, Step, Word
from alignatt_agent.types.stopwatch import Stopwatch


class TargetStream:
    """Translates the updates of speech recognition.

    After an exception, closed sentences wait for the next call. The next step or ``drain`` returns
    the units that were decided before the exception.
    """

    def __init__(self, translator: Translator | Captions, watch: Stopwatch | None = None) -> None:
        self.translator = translator
        self._watch = watch or Stopwatch()
        self._ahead: Future[None] | None = None
        self._passes = translator.steps
        self._sentences: deque[tuple[Word, ...]] = deque()
        self._retried = False
        self._undelivered = Emission()

    def update(self, heard: SpeechUpdate, audio_s: float) -> Step:
        """Translate the next update of speech recognition; pass each update once, in order.

        ``audio_s`` is the length of the audio so far. The seconds of the step exclude recognition.
        """
        translator = self.translator
        emitted = translator.emitted
        begin = self._watch.clock()
        if self._await_ahead():
            self._watch.shorten("draft", begin)
        else:
            self._watch.start()
        self._sentences += heard.sentences
        while self._sentences:
            # A sentence leaves the queue only after its translation.
            self._undelivered += self._complete(self._sentences[0])
            self._sentences.popleft()
        self._undelivered += translator.update(heard.live)
        emission = self.drain()
        # Passes of an earlier failed call are included.
        passes = translator.steps - self._passes
        self._passes = translator.steps
        return Step(
            audio_s=audio_s,
            heard=heard,
            gated=translator.gated,
            units=emission.units,
            accepted=translator.emitted - emitted,
            passes=passes,
            seconds=self._watch.read(),
            times=emission.times,
        )

    def translate(
        self, words: tuple[Word, ...], accessible: int | None
    ) -> tuple[Emission, GatedDraft | None]:
        """Translate words that a client recognized, as an alternative to ``update``.

        ``accessible`` is the number of accessible words of the open utterance, or ``None`` if the
        utterance is closed. Returns the next units, and the latest gated draft.

        Raises:
            EngineError: an engine failed; the call may be repeated.
        """
        if accessible is None:
            emission = self.translator.complete(words)
        else:
            emission = self.translator.update(SourceView(words, accessible))
        return emission, self.translator.gated

    def remember(self, sentences: Sequence[tuple[str, str]], accepted: str = "") -> None:
        """Set earlier sentences and translations; the next translation begins with ``accepted``."""
        self.translator.remember(sentences, accepted)

    def draft_ahead(self, view: SourceView, threads: Executor) -> None:
        """Draft ahead in a thread while the words of ``view`` are being aligned."""
        self._await_ahead()
        # A closed sentence must be translated before the open one.
        if not self._sentences:
            self._watch.start()
            self._ahead = threads.submit(self.translator.draft_ahead, view)

    def _await_ahead(self) -> bool:
        waiting = self._ahead
        self._ahead = None
        if waiting is not None:
            # The update raises the error again.
            with suppress(Exception):
                waiting.result()
        return waiting is not None

    def drain(self) -> Emission:
        """Return the units that a failed call had already decided to emit."""
        emission = self._undelivered
        self._undelivered = Emission()
        return emission

    def _complete(self, sentence: tuple[Word, ...]) -> Emission:
        """Finish a sentence; a sentence that fails twice is dropped."""
        try:
            emission = self.translator.complete(sentence)
        except Exception:
            # A sentence that always fails would block all later ones.
            if self._retried:
                self._sentences.popleft()
                self.translator.reset()
            self._retried = not self._retried
            raise
        self._retried = False
        return emission
