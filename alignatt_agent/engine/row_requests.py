"""Track requests that need rows or verification, without tensors or vLLM."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from alignatt_agent.engine.draft_verification import Expected
from alignatt_agent.policy import POLICIES
from alignatt_agent.policy.base import RowScan
from alignatt_agent.types import FloatArray

EXTRA = "alignatt"
"""Key of our own entry in ``SamplingParams.extra_args``."""

PROMPT = 0
"""Column of a row: mass on the prompt outside the source."""

SUFFIX = 1
"""Column of a row: mass on the draft."""

SOURCE = slice(2, None)
"""Columns of a row: weights of the source tokens."""

MAX_WAIT_S = 60.0
"""Seconds from the end of a request, e.g. an aborted one, until its unfetched rows are dropped."""


class HeadsToCapture:
    """An engine's list of heads, passed to the workers as vLLM's ``additional_config``.

    vLLM adds a hash of this object to the key of its compile cache. Captured heads do not change
    the compiled graph, so all lists of heads share one cache.
    """

    def __init__(self, heads: tuple[tuple[int, int], ...]) -> None:
        self.heads = heads

    def compute_hash(self) -> str:
        """Return a constant; see the description of the class."""
        return "alignatt"


@dataclass
class CaptureRequest:
    """One request for rows, verification of tokens, or both, and its results so far.

    A client's ``EXTRA`` entry contains the fields up to ``expected`` (there, a list of ids).

    Attributes:
        key: name under which the rows are fetched; unique among the requests of all clients.
        start: position of the first source token.
        end: position after the last source token.
        prompt: number of prompt tokens.
        first: position of the first query whose row is requested.
        count: maximum number of rows.
        heads: indices of the requested heads in the engine's list.
        gate: settings of a policy, ``frontier``, and ``earlier``: shape and float32 bytes of the
            rows before ``first``. The draft ends at the first token that the gate rejects.
        expected: the last tokens of the request's prompt, which are verified; the request ends when
            the model decodes a different token.
        blocks: block ids of each cache group; every change creates a new list.
        rows: for each row, the tensor that contains it and the index in this tensor.
        finished: monotonic time at which the scheduler finished the request, in seconds.
        rejected: whether the gate rejected a token.
        next_token: the next greedy token, which was not sampled because the gate rejected a token.
        replay_s: this request's share of the time for computing rows, in seconds.
    """

    key: str
    start: int = 0
    end: int = 0
    prompt: int = 0
    first: int = 0
    count: int = 0
    heads: Sequence[int] = ()
    gate: dict[str, Any] | None = None
    expected: Expected | None = None
    blocks: list[list[int]] = field(default_factory=list)
    rows: dict[int, tuple[Any, int]] = field(default_factory=dict)
    finished: float | None = None
    rejected: bool = False
    next_token: int | None = None
    replay_s: float = 0.0
    _scan: RowScan | None = None
    _scanned: int = 0

    @property
    def over(self) -> bool:
        """Whether further sampled tokens are discarded."""
        return self.rejected or (self.expected is not None and self.expected.over)

    @property
    def over_before_sampling(self) -> bool:
        """Whether the request ended within its expected tokens."""
        return self.expected is not None and self.expected.over

    def scan(self, number: int, row: FloatArray) -> None:
        """Pass a row, ``[heads, source]``, to the gate; a repeated row has no effect."""
        if self.gate is None or self.rejected:
            return
        # A preempted request computes its rows again, but a scan depends on the order of rows.
        if number != self._scanned:
            return
        position = self.first + number
        if self.expected is not None and not self.expected.holds(position):
            return  # the model decodes a different token
        if self._scan is None:
            self._scan = _begun_scan(self.gate)
        self._scanned += 1
        self.rejected = self._scan(row) is not None
        if self.rejected and self.expected is not None:
            self.expected.cut(position)

    def pages(self, group: int, split: int, count: int) -> list[int]:
        """Return the first ``count`` pages of a group whose blocks contain ``split`` pages each.

        A shorter table is padded with page 0, whose positions the causal mask hides.
        """
        pages: list[int] = []
        for block in self.blocks[group]:
            pages.extend(range(block * split, (block + 1) * split))
        missing = count - len(pages)
        if missing > 0:
            pages.extend([0] * missing)
        return pages[:count]


def _begun_scan(gate: Mapping[str, Any]) -> RowScan:
    """Return the scan of a ``CaptureRequest.gate`` after the rows of earlier requests."""
    settings = dict(gate)
    frontier = settings.pop("frontier")
    shape, data = settings.pop("earlier")
    policy = POLICIES[settings["name"]](**settings)
    scan = policy.scan(frontier)
    assert scan is not None, "the policy of the gate has no scan"
    for earlier_row in np.frombuffer(data, np.float32).reshape(shape):
        scan(earlier_row)
    return scan


@dataclass(frozen=True, slots=True)
class WantedRow:
    """One row to compute in the current step: a request and the position of the query."""

    request: CaptureRequest
    position: int


# vLLM creates the logits processor itself, so it cannot receive the ledger.
REQUESTS: WeakValueDictionary[str, CaptureRequest] = WeakValueDictionary()
"""All capture requests of this process by key, for the logits processor."""


class Ledger:
    """Requests for rows or verification, from their first step until they are fetched.

    Attributes:
        due: expected tokens that the last scheduled step can verify, and their indices among the
            request's tokens in the step, by vLLM's request id.
    """

    def __init__(self) -> None:
        self.due: dict[str, tuple[Expected, range]] = {}
        self._running: dict[str, CaptureRequest] = {}
        self._by_key: dict[str, CaptureRequest] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def schedule(self, scheduled: Any) -> list[WantedRow]:
        """Process one ``SchedulerOutput``, and return the rows to compute in its step."""
        for request_id in scheduled.finished_req_ids:
            self._finish(request_id)
        rows: list[WantedRow] = []
        self.due = {}
        counts = scheduled.num_scheduled_tokens
        for new in scheduled.scheduled_new_reqs:
            request = self._open(new)
            if request is not None:
                rows += self._fed(request, new.req_id, new.num_computed_tokens, counts)
        cached = scheduled.scheduled_cached_reqs
        for request_id, blocks, computed in zip(
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
        ):
            request = self._running.get(request_id)
            if request is None:
                continue
            if request_id in cached.resumed_req_ids:
                # A preempted request gets other blocks, and vLLM sends all of them.
                request.blocks = [list(group) for group in blocks]
            elif blocks is not None:
                request.blocks = _extended(request.blocks, blocks)
            rows += self._fed(request, request_id, computed, counts)
        return rows

    def _fed(
        self, request: CaptureRequest, request_id: str, computed: int, counts: Mapping[str, int]
    ) -> list[WantedRow]:
        """Store which tokens of a request the step can verify, and return the rows to compute."""
        count = counts[request_id]
        if request.expected is not None:
            tokens = request.expected.due(computed, count)
            if tokens:
                self.due[request_id] = (request.expected, tokens)
        if request.over_before_sampling:
            return []
        begin = max(computed, request.first)
        end = min(computed + count, request.first + request.count)
        return [WantedRow(request, position) for position in range(begin, end)]

    def _open(self, new: Any) -> CaptureRequest | None:
        if not new.sampling_params:  # e.g. a pooling request
            return None
        extra = new.sampling_params.extra_args or {}
        fields = extra.get(EXTRA)
        if fields is None:
            return None
        key = fields["key"]
        request = self._by_key.get(key)
        if request is None or request.finished is not None:
            expected = None
            if fields.get("expected"):
                expected = Expected(fields["expected"], len(new.prompt_token_ids))
            request = CaptureRequest(**{**fields, "expected": expected})
            REQUESTS[key] = request
            self._by_key[key] = request
        # Model runner V2 sends a resumed request as a new request.
        request.blocks = [list(group) for group in new.block_ids]
        self._running[new.req_id] = request
        return request

    def _finish(self, request_id: str) -> None:
        request = self._running.pop(request_id, None)
        if request is None:
            return
        now = time.monotonic()
        request.finished = now
        for key, unfetched in list(self._by_key.items()):
            if unfetched.finished is not None and now - unfetched.finished > MAX_WAIT_S:
                del self._by_key[key]

    def take(self, key: str) -> CaptureRequest | None:
        """Remove and return a request; a running request is no longer captured."""
        request = self._by_key.pop(key, None)
        REQUESTS.pop(key, None)
        if request is not None:
            request.count = 0
        return request


def _extended(
    blocks: Sequence[Sequence[int]], new_blocks: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Append new block ids to those of each cache group, in new lists.

    ``RowComputer.serves`` compares the lists of two steps by identity.
    """
    extended = []
    for old, new in zip(blocks, new_blocks, strict=True):
        extended.append([*old, *new])
    return extended
