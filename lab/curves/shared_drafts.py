"""Drafts that all policies share: each token of a source is decoded once and stored."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.types import AttentionRows, Draft
from alignatt_agent.types.engines import DraftRequest, TranslationEngine

SHORTEST = 32
"""Minimum number of tokens of a request. A longer draft costs less than a second request."""


def form_of(*classes: Any) -> str:
    """Return the fields of classes, as a part of the keys of pickled results.

    A pickle names its class but not the fields, so results of an older form must not be used.
    """
    return repr([(kind, kind.__slots__) for kind in classes])


DRAFT_FORM = form_of(AttentionRows, Draft)

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
        drafted = path[len(self.start) :]
        if self.draft.token_ids[: len(drafted)] != drafted:
            return None
        # If the path is the whole draft, only the end of the draft says how it continues.
        if len(drafted) == len(self.draft.token_ids) and not self.draft.ended:
            return None
        return _part(self.draft, slice(len(drafted), None))


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
        key = self._key(request)
        with self._lock:
            self.requests += 1
        draft = self._continued(key, request, ())
        while not draft.ended and len(draft.token_ids) < request.max_tokens:
            draft = _joined(draft, self._continued(key, request, draft.token_ids))
        # An engine needs one more step to end a draft, so a draft at the limit has not ended.
        ended = draft.ended and len(draft.token_ids) < request.max_tokens
        return replace(_part(draft, slice(request.max_tokens)), ended=ended)

    def _continued(self, key: bytes, request: DraftRequest, drafted: Ids) -> Draft:
        """Return the longest stored draft after ``drafted``, or a new one.

        Expected tokens of a request are ignored. They save steps of one stream, but in a batch
        their verification takes longer than decoding, because wrong tokens are computed, too.
        """
        prompt = request.prompt
        path = (*prompt.token_ids[prompt.source_end :], *drafted)
        with self._lock:
            rest = _longest_rest(self._stored(key), path)
        if rest is not None:
            return rest
        longer = replace(prompt, token_ids=(*prompt.token_ids, *drafted))
        max_tokens = max(SHORTEST, request.max_tokens - len(drafted))
        draft = self._engine.draft(
            DraftRequest(longer, max_tokens, request.readout, excluded=request.excluded)
        )
        self._store(key, Segment(path, draft))
        return draft

    def _key(self, request: DraftRequest) -> bytes:
        """Return a hash of all that drafts depend on, except the tokens after the source."""
        prompt = request.prompt
        source = np.asarray(prompt.token_ids[: prompt.source_end], np.int64)
        return key_of(
            "segments",
            DRAFT_FORM,
            self._name,
            source.tobytes(),
            prompt.source_start,
            repr(request.readout),
            *request.excluded,
        )

    def _stored(self, key: bytes) -> list[Segment]:
        """Return the segments of a source; call it with the lock."""
        if key not in self._segments:
            # Segments are numbered, so the first missing number ends the list.
            segments: list[Segment] = []
            while (segment := self._cache.get(key_of(key, len(segments)))) is not None:
                segments.append(segment)
            self._segments[key] = segments
        return self._segments[key]

    def _store(self, key: bytes, segment: Segment) -> None:
        with self._lock:
            segments = self._segments[key]
            self._cache.put(key_of(key, len(segments)), segment)
            segments.append(segment)
            self.computed += 1


def _longest_rest(segments: Sequence[Segment], path: Ids) -> Draft | None:
    """Return the longest continuation of ``path``; of equally long ones, one that ended."""
    longest: Draft | None = None
    for segment in segments:
        rest = segment.after(path)
        if rest is None:
            continue
        if longest is None or _length(rest) > _length(longest):
            longest = rest
    return longest


def _length(draft: Draft) -> tuple[int, bool]:
    return len(draft.token_ids), draft.ended


def _part(draft: Draft, tokens: slice) -> Draft:
    """Return some tokens of a draft with their rows and probabilities."""
    rows = draft.rows
    if rows is not None:
        rows = rows[tokens]
    return replace(
        draft,
        token_ids=draft.token_ids[tokens],
        rows=rows,
        probabilities=draft.probabilities[tokens],
    )


def _joined(draft: Draft, more: Draft) -> Draft:
    """Return ``draft`` and its continuation ``more`` as one draft, which ends as ``more`` does."""
    rows = None
    if draft.rows is not None and more.rows is not None:
        rows = draft.rows + more.rows
    return replace(
        more,
        token_ids=draft.token_ids + more.token_ids,
        rows=rows,
        probabilities=draft.probabilities + more.probabilities,
    )
