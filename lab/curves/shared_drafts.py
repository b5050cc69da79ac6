"""Drafts that all policies share: each token of a source is decoded once and stored."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np

from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.types import AttentionRows, Draft
from alignatt_agent.types.engines import DraftRequest, TranslationEngine

SHORTEST = 32
"""Minimum number of tokens of a request. A longer draft costs less than a second request."""

# A pickle names its class but not the fields, so drafts of an older form must not be used.
_FORM = repr([(kind, kind.__slots__) for kind in (AttentionRows, Draft)])

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A greedy continuation of the tokens ``start``, which follow the source of a prompt."""

    start: Ids
    draft: Draft

    def after(self, path: Ids) -> Draft | None:
        """Return the rest of the draft after ``path``, or ``None`` if it does not continue it."""
        if path[: len(self.start)] != self.start:
            return None
        passed = len(path) - len(self.start)
        if self.draft.token_ids[:passed] != path[len(self.start) :]:
            return None
        if passed == len(self.draft.token_ids) and not self.draft.ended:
            return None
        return _part(self.draft, slice(passed, None))


class SharedDrafts:
    """A translation engine that stores greedy continuations in ``cache``.

    Greedy decoding is deterministic, so a draft after a prefix of an earlier draft of the same
    source is the rest of that draft, with the same rows over the source. Policies that accept
    different parts of a draft therefore share it. ``rows.prompt`` and ``rows.suffix`` are those of
    the first request, so policies must not read them. ``name`` identifies the checkpoint and how it
    runs. It is thread-safe.
    """

    def __init__(self, engine: TranslationEngine, cache: ResultCache, name: str) -> None:
        self._engine, self._cache, self._name = engine, cache, name
        self._lock = threading.Lock()
        self._segments: dict[bytes, list[Segment]] = {}
        self.requests = 0
        self.computed = 0

    def draft(self, request: DraftRequest) -> Draft:
        """Return the whole draft of a prompt, see ``types.TranslationEngine``."""
        if request.gate is not None or request.resumed is not None:
            raise ValueError("only whole drafts are shared: use early_stop=False")
        prompt = request.prompt
        max_tokens = request.max_tokens
        readout = request.readout
        ids, end = prompt.token_ids, prompt.source_end
        source = np.asarray(ids[:end], np.int64).tobytes()
        root = key_of("segments", _FORM, self._name, source, prompt.source_start, repr(readout))
        with self._lock:
            self.requests += 1
            segments = self._stored(root)
        draft: Draft | None = None
        while draft is None or (not draft.ended and len(draft.token_ids) < max_tokens):
            before = draft.token_ids if draft else ()
            path = (*ids[end:], *before)
            with self._lock:
                rests = [rest for item in segments if (rest := item.after(path)) is not None]
            if rests:
                more = max(rests, key=lambda rest: (len(rest.token_ids), rest.ended))
            else:
                # Expected tokens save steps of one stream. In a batch, their verification takes
                # longer than decoding, because wrong tokens are computed, too.
                longer = replace(prompt, token_ids=(*ids, *before))
                most = max(SHORTEST, max_tokens - len(before))
                more = self._engine.draft(DraftRequest(longer, most, readout))
                self._store(root, Segment(path, more))
            draft = more if draft is None else _joined(draft, more)
        short = len(draft.token_ids) < max_tokens
        return replace(_part(draft, slice(max_tokens)), ended=draft.ended and short)

    def _stored(self, root: bytes) -> list[Segment]:
        if root not in self._segments:
            segments: list[Segment] = []
            while (segment := self._cache.get(key_of(root, len(segments)))) is not None:
                segments.append(segment)
            self._segments[root] = segments
        return self._segments[root]

    def _store(self, root: bytes, segment: Segment) -> None:
        with self._lock:
            segments = self._segments[root]
            self._cache.put(key_of(root, len(segments)), segment)
            segments.append(segment)
            self.computed += 1


def _part(draft: Draft, tokens: slice) -> Draft:
    return replace(
        draft,
        token_ids=draft.token_ids[tokens],
        rows=None if draft.rows is None else draft.rows[tokens],
        probabilities=draft.probabilities[tokens],
    )


def _joined(draft: Draft, more: Draft) -> Draft:
    both = draft.rows is not None and more.rows is not None
    return replace(
        more,
        token_ids=draft.token_ids + more.token_ids,
        rows=draft.rows + more.rows if both and draft.rows and more.rows else None,
        probabilities=draft.probabilities + more.probabilities,
    )
