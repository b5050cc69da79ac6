"""The three engines of the cascade behind a cache.

Only whole drafts are cached. They depend on nothing but the prompt, so every policy, frontier and
hold-back shares them. ``name`` is what identifies a checkpoint and how it runs; ``shared`` are the
readouts that serve every request for some of their heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.evaluation.cache import key_of
from alignatt_agent.types import AttentionRows, Draft, FloatArray, Prompt, Transcript
from alignatt_agent.types.engines import AlignedItem, Gate, Readout, TranslationEngine
from lab.curves.timed_cache import TimedCache

# A pickle names its class, but not the fields: results of an older form must not be used.
_SPEECH_FORM = repr([(kind, kind.__slots__) for kind in (AlignedItem, Transcript)])
_DRAFT_FORM = repr([(kind, kind.__slots__) for kind in (AttentionRows, Draft)])


def cached(
    engines: Engines, cache: TimedCache, names: Mapping[str, str], shared: Sequence[Readout] = ()
) -> Engines:
    """Put ``engines`` behind ``cache``."""
    return replace(
        engines,
        asr=CachedSpeech(engines.asr, cache, names["asr"]),
        aligner=engines.aligner and CachedSpeech(engines.aligner, cache, names["aligner"]),
        translation=CachedDrafts(engines.translation, cache, names["translation"], shared),
    )


class CachedSpeech:
    """A recognizer or aligner that does the same work once."""

    def __init__(self, engine: Any, cache: TimedCache, name: str = "") -> None:
        self._engine, self._cache, self._name = engine, cache, name

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``, whatever was expected of it."""
        key = key_of("transcribe", _SPEECH_FORM, self._name, audio.tobytes(), language, context)
        return self._cache.get_or_compute(
            key, lambda: self._engine.transcribe(audio, language, context, expected)
        )

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the timed words of ``text``."""
        key = key_of("align", _SPEECH_FORM, self._name, audio.tobytes(), text, language)
        return self._cache.get_or_compute(key, lambda: self._engine.align(audio, text, language))


class CachedDrafts:
    """A translation engine that drafts the same prompt once."""

    def __init__(
        self,
        engine: TranslationEngine,
        cache: TimedCache,
        name: str,
        shared: Sequence[Readout] = (),
    ) -> None:
        self._engine, self._cache, self._name = engine, cache, name
        self._shared = sorted(shared, key=lambda readout: len(readout.heads))

    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Return the whole draft of ``prompt``, see ``types.TranslationEngine``."""
        if gate is not None or resumed is not None:
            raise ValueError("only whole drafts are cached: run with early_stop: false")
        asked = self._serving(readout)
        key = key_of(
            "draft",
            _DRAFT_FORM,
            self._name,
            np.asarray(prompt.token_ids, np.int64).tobytes(),
            prompt.source_start,
            prompt.source_end,
            max_tokens,
            repr(asked),
        )
        whole = self._cache.get_or_compute(
            key, lambda: self._engine.draft(prompt, max_tokens, asked, expected=expected)
        )
        if readout is None or asked is None or readout.heads == asked.heads:
            return whole
        assert whole.rows is not None
        places = [asked.heads.index(head) for head in readout.heads]
        rows = (whole.rows.source, whole.rows.prompt, whole.rows.suffix)
        return replace(whole, rows=AttentionRows(*(part[:, places] for part in rows)))

    def _serving(self, readout: Readout | None) -> Readout | None:
        if readout is None:
            return None
        for shared in self._shared:
            same = (shared.row, shared.probabilities) == (readout.row, readout.probabilities)
            if same and set(readout.heads) <= set(shared.heads):
                return shared
        return readout
