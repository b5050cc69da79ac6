"""Times of a talk by the clock."""

import time

PAUSE_S = 1.0
"""Audio that comes later than the audio before it by so much follows a pause."""


class Arrivals:
    """When the audio of a talk arrived: what is said after a pause of the sender is later."""

    def __init__(self) -> None:
        self._parts: list[tuple[float, float]] = []  # time of the talk, seconds until it arrived

    def note(self, start_s: float, end_s: float) -> None:
        """Note that the audio between two times of the talk has arrived."""
        late = time.monotonic() - end_s
        if not self._parts or late > self._parts[-1][1] + PAUSE_S:
            self._parts.append((start_s, late))
        elif late < self._parts[-1][1]:  # it was sent faster than it was spoken
            self._parts[-1] = (self._parts[-1][0], late)

    def __call__(self, audio_s: float) -> float:
        """Return when a time of the talk arrived, by the monotonic clock."""
        known = [late for start_s, late in self._parts if start_s <= audio_s]
        return audio_s + (known or [late for _, late in self._parts[:1]] or [time.monotonic()])[-1]
