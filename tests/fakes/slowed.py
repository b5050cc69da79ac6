"""Engines that take longer."""

from __future__ import annotations

import time


class Slowed:
    """An engine each of whose calls of one method takes ``seconds`` longer."""

    def __init__(self, engine, call, seconds):
        self._engine, self._call, self._seconds = engine, call, seconds

    def __getattr__(self, name):
        found = getattr(self._engine, name)
        if name != self._call:
            return found

        def slowed(*given, **named):
            time.sleep(self._seconds)
            return found(*given, **named)

        return slowed
