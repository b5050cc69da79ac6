"""Immutable states of the open utterance and its stream; each step creates new states."""

from dataclasses import dataclass, replace

from alignatt_agent.translation.alignment import Aligned, realigned
from alignatt_agent.translation.drafter import Drafted
from alignatt_agent.translation.history import History
from alignatt_agent.types import GatedDraft


@dataclass(frozen=True, slots=True)
class Utterance:
    """The open utterance; its fields determine its state.

    * *new*: all fields are empty.
    * *awaited*: ``accepted`` tokens were emitted before the stream; there is no ``source`` yet.
    * *carried*: ``accepted`` tokens and ``source`` words follow the closed sentence.
    * *decided*: ``drafted`` is a draft for ``source``; ``accepted`` contains its accepted part.

    In each state, ``ahead`` may be a draft for the source of the next update.

    Attributes:
        source: the words to which ``aligned`` refers.
        accepted: accepted token ids, which only grow; their text is emitted.
        aligned: the source word of each accepted token, if known.
        drafted: the last draft that the policy decided on.
        ahead: a draft that the policy has not yet decided on.
        expected: the last complete drafted translation, which only saves time.
        apart: whether the next unit is separate from the emitted text.
    """

    source: tuple[str, ...] = ()
    accepted: tuple[int, ...] = ()
    aligned: Aligned = ()
    drafted: Drafted | None = None
    ahead: Drafted | None = None
    expected: tuple[int, ...] = ()
    apart: bool = True

    def decided(self, source: tuple[str, ...], accessible: int | None = None) -> bool:
        """Return whether the policy decided on a draft for ``source`` with ``accessible`` words."""
        if self.drafted is None or self.drafted.source != source:
            return False
        return accessible is None or accessible == self.drafted.accessible

    def draft_of(self, source: tuple[str, ...]) -> Drafted | None:
        """Return the draft for ``source``, if any; a draft ahead is the latest."""
        if self.ahead is not None and self.ahead.source == source:
            return self.ahead
        if self.drafted is not None and self.drafted.source == source:
            return self.drafted
        return None

    def hearing(self, source: tuple[str, ...]) -> "Utterance":
        """Take the words of an awaited utterance, or discard an utterance without words.

        An utterance without words was revoked by the recognizer: its translation stays emitted, but
        the next utterance must not continue this translation.
        """
        # The state *awaited*: the accepted text belongs to these words.
        if self.accepted and not self.source:
            return replace(self, source=source)
        if not source:
            return Utterance()
        return self

    def deciding(self, drafted: Drafted, expected: tuple[int, ...]) -> "Utterance":
        """Return the utterance with the source of a draft, which may revise its own source."""
        aligned = realigned(self.aligned, old=self.source, new=drafted.source)
        return replace(
            self,
            source=drafted.source,
            aligned=aligned,
            drafted=drafted,
            ahead=None,
            expected=expected,
        )

    def accepting(self, added: tuple[int, ...], aligned: tuple[int, ...]) -> "Utterance":
        """Append accepted tokens, with their source words if known."""
        # Source words are unknown without rows, and in a remembered translation.
        added_words: Aligned = aligned or (None,) * len(added)
        return replace(
            self,
            accepted=self.accepted + added,
            aligned=self.aligned + added_words,
        )


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream's translation, with its last step.

    Attributes:
        history: closed sentences with translations.
        utterance: the open utterance.
        gated: the draft and the decision of the last update.
        emitted: number of emitted tokens.
        unit: the last emitted unit.
        unit_start: start of the last emitted unit, in seconds.
        timed_until: end of the speech whose units have times, in seconds.
    """

    history: History
    utterance: Utterance = Utterance()
    gated: GatedDraft | None = None
    emitted: int = 0
    unit: str = ""
    unit_start: float = 0.0
    timed_until: float = 0.0
