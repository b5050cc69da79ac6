"""One stream: the chunk step of the cascade (Figure 1 of the paper)."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy.typing as npt

from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import Emission, SpeechUpdate, Word


class Session:
    """Audio chunks in, append-only translation out.

    An exception of an engine leaves the session usable: audio and closed sentences wait for the
    next call, and units that were decided before the failure come with its emission, or with
    ``drain``.

    Args:
        live_tail: the speech side.
        translator: the translation side.

    Attributes:
        translator: the translation side, for diagnostics.
        heard: what the latest chunk gave on the speech side, for diagnostics.
    """

    def __init__(self, live_tail: LiveTail, translator: Translator) -> None:
        self._live_tail = live_tail
        self.translator = translator
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._live_tail.reset()
        self.translator.reset()
        self._sentences: deque[tuple[Word, ...]] = deque()
        self._retried = False
        self._undelivered = Emission()
        self.heard: SpeechUpdate | None = None

    def step(self, chunk: npt.NDArray[Any]) -> Emission:
        """Hear a chunk, ``[samples]``, and translate what it allows.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the stream may go on.
        """
        return self._translate(self._live_tail.push(chunk))

    def finish(self) -> Emission:
        """Translate everything that was said to its end.

        Raises:
            EngineError: an engine failed; the call may be repeated.
        """
        return self._translate(self._live_tail.finish())

    def drain(self) -> Emission:
        """Return units that a failed call decided but could not deliver."""
        emission, self._undelivered = self._undelivered, Emission()
        return emission

    def _translate(self, heard: SpeechUpdate) -> Emission:
        self.heard = heard
        self._sentences += heard.sentences
        while self._sentences:
            self._undelivered += self._complete(self._sentences[0])
            self._sentences.popleft()
        self._undelivered += self.translator.update(heard.live)
        return self.drain()

    def _complete(self, sentence: tuple[Word, ...]) -> Emission:
        """Finish a sentence; one that fails twice is given up, so that the stream can go on."""
        try:
            emission = self.translator.complete(sentence)
        except Exception:
            if self._retried:
                self._sentences.popleft()
                self.translator.reset()
            self._retried = not self._retried
            raise
        self._retried = False
        return emission
