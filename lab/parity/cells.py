"""Judge the cells of the parity matrix."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from alignatt_agent.doctor.parity_check import TWO_ROUNDINGS, Gap, different_models, missed
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types import AttentionRows, Draft, FloatArray, Prompt
from alignatt_agent.types.engines import Readout

FRONTIERS = 8
"""Number of frontiers at which gates decide, evenly spread over the source."""

SEAM = "transformers"
"""Pseudo-mode: fused attention of Transformers against its eager attention."""

Head = tuple[int, int]

Decisions = list[tuple[int, str]]

GATES: dict[str, dict[str, Any]] = {
    "paper": {},
    "raw": {"normalize": "none", "median_width": 1, "border_margin": -1},
}
"""The gate of the paper and the plainest one."""


@dataclass(frozen=True)
class Ask:
    """One request; without a readout it only keeps the engine busy."""

    prompt: Prompt
    gate_heads: tuple[Head, ...]  # whose rows the gate reads
    max_tokens: int
    readout: Readout | None


@dataclass(frozen=True)
class RequestResult:
    """Result of one request."""

    sampled: tuple[int, ...]  # including the one that ended the turn
    logprobs: tuple[tuple[tuple[int, float], ...], ...]  # the most likely ids of every sampled one
    cached: int  # prompt tokens out of the prefix cache
    draft: Draft


@dataclass
class Verdicts:
    """Gate decisions on rows, compared with those on the rows of Transformers in the same type.

    Decisions are settled if Transformers agrees in eager and fused attention and in float32;
    rounding decides the others.
    """

    settled: int = 0
    same_settled: int = 0

    def add(self, ours: Decisions, theirs: Decisions, *others: Decisions) -> None:
        """Add the decisions on one answer; ``others`` determine which are settled."""
        for our_decision, reference, *further in zip(ours, theirs, *others, strict=True):
            if further.count(reference) == len(further):
                self.settled += 1
                self.same_settled += our_decision == reference


def decide(ask: Ask, draft: Draft, rows: AttentionRows) -> Decisions:
    """Let every gate decide on a draft with these rows, at several frontiers."""
    assert ask.readout is not None
    places = [ask.readout.heads.index(head) for head in ask.gate_heads]
    gate_rows = AttentionRows(
        rows.source[:, places],
        rows.prompt[:, places],
        rows.suffix[:, places],
    )
    draft = replace(draft, rows=gate_rows)
    width = rows.source.shape[-1]
    # A short source has fewer frontiers, each of which counts once.
    frontiers = {max(1, width * part // FRONTIERS) for part in range(1, FRONTIERS + 1)}
    decisions: Decisions = []
    for settings in GATES.values():
        gate = AlignAtt(**settings)
        for frontier in sorted(frontiers):
            decision = gate.decide(draft, frontier)
            decisions.append((decision.accepted, decision.reason))
    return decisions


@dataclass
class Cell:
    """One cell of the matrix: a model, engine mode (or ``SEAM``), type and situation."""

    subject: str
    trained: bool
    mode: str
    dtype: str
    situation: str
    requests: int = 0
    tokens: int = 0  # drafted, with rows
    same_dtype: Gap = field(default_factory=Gap)  # to Transformers eager in the same type
    floor: Gap = field(default_factory=Gap)  # of Transformers eager in the same type to float32
    verdicts: Verdicts = field(default_factory=Verdicts)
    logprob_gap: float = 0.0  # the largest to Transformers in float32
    same_ids: int = 0  # requests with the same ids without capture
    same_logprobs: int = 0  # to the bit
    problems: list[str] = field(default_factory=list)  # missed bars

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.subject}/{self.mode}/{self.dtype}/{self.situation}"

    def judge(
        self, asks: Sequence[Ask], captured: Sequence[RequestResult], plain: Sequence[RequestResult]
    ) -> None:
        """Compare answers with and without capture, and note every exceeded bound."""
        self.requests = len(captured)
        self.same_ids = self.same_logprobs = 0
        for with_rows, without_rows in zip(captured, plain, strict=True):
            self.same_ids += with_rows.sampled == without_rows.sampled
            self.same_logprobs += with_rows.logprobs == without_rows.logprobs
        problems = self.problems
        if not self.tokens:
            problems.append("no row was compared")
        problems += missed("token ids with and without capture", self.same_ids, self.requests)
        problems += missed("logprobs with and without capture", self.same_logprobs, self.requests)
        if self.dtype == "float32":
            # Rows of two different functions differ in any case.
            different_functions = different_models(self.logprob_gap)
            if different_functions:
                problems += different_functions
                return
            problems += self.same_dtype.missed_exactness()
        elif self.trained:
            problems += self.same_dtype.missed_mean(TWO_ROUNDINGS * self.floor.mean)
        if self.trained:
            problems += missed("decisions", self.verdicts.same_settled, self.verdicts.settled)
        cached = [answer.cached for ask, answer in zip(asks, captured, strict=True) if ask.readout]
        if self.situation == "prefix" and not all(cached):
            problems.append("a prompt did not hit the prefix cache")
        if self.situation in ("alone", "chunked") and any(cached):
            problems.append("a prompt hit the prefix cache")

    def add_logprobs(self, answer: RequestResult, expected: FloatArray) -> None:
        """Include the log-probabilities of an answer; ``expected`` is ``[tokens, vocabulary]``."""
        for likely, row in zip(answer.logprobs, expected, strict=True):
            tokens, values = zip(*likely, strict=True)
            gap = np.abs(np.array(values) - row[list(tokens)]).max()
            # np.maximum keeps NaN, which `max` may lose.
            self.logprob_gap = float(np.maximum(self.logprob_gap, gap))

    def summary(self) -> dict[str, Any]:
        """Return the cell in its JSON form."""
        return {**asdict(self), "passed": not self.problems}
