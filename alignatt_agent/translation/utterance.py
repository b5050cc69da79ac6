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
        last = self.drafted
        return bool(last and last.source == source and accessible in (None, last.accessible))

    def hearing(self, source: tuple[str, ...]) -> "Utterance":
        """Take the words of an awaited utterance, or discard an utterance without words.

        An utterance without words was revoked by the recognizer: its translation stays emitted, but
        the next utterance must not continue this translation.
        """
        if self.accepted and not self.source:
            return replace(self, source=source)
        return self if source else Utterance()

    def deciding(self, drafted: Drafted, expected: tuple[int, ...]) -> "Utterance":
        """Return the utterance with the source of a draft, which may revise its own source."""
        aligned = realigned(self.aligned, self.source, drafted.source)
        decided = replace(self, source=drafted.source, aligned=aligned, drafted=drafted)
        return replace(decided, ahead=None, expected=expected)

    def accepting(self, added: tuple[int, ...], aligned: tuple[int, ...]) -> "Utterance":
        """Append accepted tokens, with their source words if known."""
        known = self.aligned + (aligned or (None,) * len(added))
        return replace(self, accepted=self.accepted + added, aligned=known)


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream's translation, with its last step.

    Attributes:
        history: closed sentences.
        utterance: the open utterance.
        gated: the draft and the decision of the last update.
        emitted: number of emitted tokens.
        unit: the last emitted unit.
        told: start of the last unit, and end of the speech whose units have times.
    """

    history: History
    utterance: Utterance = Utterance()
    gated: GatedDraft | None = None
    emitted: int = 0
    unit: str = ""
    told: tuple[float, float] = 0.0, 0.0
