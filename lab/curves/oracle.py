"""The oracle on speech, which emits what the off-line translation of a sentence begins with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from simulstream.server.speech_processors.incremental_output import IncrementalOutput

from alignatt_agent.agent import _output
from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.policy import Policy
from alignatt_agent.text.running_text import common_prefix
from alignatt_agent.types import (
    NO_CONTEXT,
    Decision,
    Draft,
    DraftContext,
    FloatArray,
    SpeechUpdate,
    StopReason,
)
from lab.curves.cached_agent import CachedAgent
from lab.curves.direction import Direction

Units = tuple[str, ...]


class OpenSentence:
    """The sentence that is being spoken.

    Attributes:
        accepted: the accepted token ids of its translation.
        offline: token ids of its off-line translation.
        chunk: number of audio chunks of the talk before the current chunk.
    """

    accepted: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    chunk: int = 0

    def begin(self, offline: tuple[int, ...]) -> None:
        """Begin a sentence with this off-line translation."""
        self.offline = offline


class Oracle(Policy):
    """Accepts what the off-line translation of the same model also begins with.

    Attributes:
        sentence: the open sentence, with the token ids of its off-line translation and of the
            accepted part of the translation.
    """

    name: Literal["oracle"] = "oracle"
    sentence: Any = Field(default_factory=OpenSentence)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the tokens that are equal to those of the off-line translation."""
        rest = self.sentence.offline[len(self.sentence.accepted) :]
        return Decision(common_prefix(draft.token_ids, rest), StopReason.DISAGREEMENT)


def translate(
    resolved: Resolved,
    engines: Engines,
    audio: FloatArray,
    target: str,
    policy: Oracle,
) -> Iterator[Units]:
    """Yield the units that the oracle accepts for each chunk of a talk, and for its end.

    The off-line translation is that of the recognized sentence, without a history. So the oracle's
    text is that of a policy that waits for the end of each sentence, and no policy can emit this
    text earlier without emitting tokens that the model has not drafted yet.
    """
    direction = Direction.of(resolved, engines, target)
    updates = list(_recognized(resolved, engines, audio))
    translations: list[tuple[int, ...]] = []
    for update in updates:
        sentences = [[word.text for word in words] for words in update.sentences]
        translations += map(direction.offline, sentences)
    # After the last sentence, marks or noise may follow.
    following = iter([*translations, ()])

    sentence: OpenSentence = policy.sentence
    sentence.begin(next(following))
    translator = direction.translator(policy)
    for chunk, update in enumerate(updates):
        sentence.chunk = chunk
        units: Units = ()
        for words in update.sentences:
            units += translator.complete(words).units
            sentence.begin(next(following))
        sentence.accepted = translator.accepted
        units += translator.update(update.live).units
        yield units


def _recognized(resolved: Resolved, engines: Engines, audio: FloatArray) -> Iterator[SpeechUpdate]:
    """Yield the update of speech recognition for each chunk, and for the end of the talk."""
    source = language(resolved.config.source_language)
    # Captions need no translation.
    stream = open_stream(resolved, engines, source, [source])
    for chunk in chunks(resolved, audio):
        yield stream.step(chunk).heard
    yield stream.finish().heard


class OracleAgent(CachedAgent):
    """Emits the units that ``translate`` prepared for a talk.

    Attributes:
        units: the units of the talk that is being streamed.
    """

    units: ClassVar[Iterator[Units]]

    def process_chunk(self, waveform: np.ndarray[Any, Any]) -> IncrementalOutput:
        """Return the units of the next chunk."""
        return _output(next(OracleAgent.units), self._session.target)

    def end_of_stream(self) -> IncrementalOutput:
        """Return the units of the end of the talk."""
        return _output(next(OracleAgent.units), self._session.target)
