"""Compare the attention rows of vLLM with those of Transformers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import AutoConfig

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.doctor.checks import Check
from alignatt_agent.doctor.machine_checks import free_memory
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.machine.nvidia import GIB
from alignatt_agent.types import AttentionRows, Draft, FloatArray, Prompt
from alignatt_agent.types.engines import DraftRequest, Readout

PARITY_TOKENS = 8
"""Length of the drafts whose rows are compared, in tokens."""

REPORT_ROWS = "do not use this engine: its rows are wrong. Report this output to the maintainers"

OTHER_TYPE = "set models.translation.dtype to bfloat16, in which both round equally, and run again"

OTHER_MODEL = (
    "the rows are correct, but vLLM or Transformers implements the model incorrectly. Use another "
    "model, or find out which implementation is wrong"
)

MAX_FP32 = 1e-4
"""Largest permitted difference between attention weights or masses in float32."""

MEAN_BF16 = 4e-4
"""Largest permitted mean difference in bfloat16 on a trained model, as in the paper."""

TWO_ROUNDINGS = math.sqrt(2)
"""Mean difference between two results, relative to the mean error of each. It holds for errors of
the same size that are normally distributed and independent, because their variances add up."""

MAX_LOGPROB = 1e-2
"""Largest permitted difference between log-probabilities of the same tokens in float32. Above this
bound, vLLM and Transformers compute different functions, and rows cannot be compared. Measured:
2e-4 for equal models, 0.2 for Cohere2, whose window is one position wider in vLLM, and 14 for
OLMoE, which vLLM does not clip."""

MAX_XIELU = 1e-2
"""Largest difference in float32 that vLLM's xIELU can explain (measured: 6e-4 on Apertus)."""


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt, and the attention rows that its direction reads."""

    prompt: Prompt
    readout: Readout

    def request(self, max_tokens: int) -> DraftRequest:
        """Return the request for a draft with these rows."""
        return DraftRequest(self.prompt, max_tokens, self.readout)


def parity(drafts: DraftEngine, model: ModelConfig, cases: Sequence[Case], dtype: str) -> Check:
    """Compare vLLM's rows with those of Transformers' eager attention on the same ids.

    In float32, both are equal up to rounding. In other types, the mean difference stays below the
    paper's bound or the noise of two roundings, whichever is larger.
    """
    name = "rows against Transformers"
    needed, free = _reference_memory(model, dtype), free_memory()
    if needed > free:
        sizes = f"the reference needs {needed / GIB:.1f} GiB; {free / GIB:.1f} GiB are free"
        fix = "free main memory, and run the command again"
        return Check(name, "warn", f"skipped: {sizes}", fix)
    drafted: list[tuple[Case, Draft]] = []
    for case in cases:
        draft = drafts.draft(case.request(PARITY_TOKENS))
        if draft.token_ids:
            drafted.append((case, draft))
    if not drafted:
        return Check(name, "warn", "nothing was compared: all drafts are empty")
    expected = _reference(model, dtype, drafted)
    gap = Gap()
    for (_, draft), rows in zip(drafted, expected, strict=True):
        assert draft.rows is not None
        gap.add(draft.rows, rows)
    summary = f"{dtype}: max |dA| {gap.largest:.1e}, mean {gap.mean:.1e}"
    if dtype == "float32":
        problems = gap.missed_exactness()
    else:
        rounding = Gap()
        for rows, exact in zip(expected, _reference(model, "float32", drafted), strict=True):
            rounding.add(rows, exact)
        noise = TWO_ROUNDINGS * rounding.mean
        summary += f" (noise {noise:.1e})"
        problems = gap.missed_mean(noise)
    if not problems:
        return Check(name, "ok", summary)
    # Rows can differ although the capture is correct, if the implementations of the model differ.
    largest, bound = logprob_gap(drafts, model, cases, dtype)
    if different := different_models(largest, bound):
        return Check(name, "FAIL", "; ".join([summary, *different]), OTHER_MODEL)
    if dtype == "float32" and (rounded := bfloat16_constants(model.path, gap.largest)):
        return Check(name, "warn", "; ".join([summary, *rounded]), OTHER_TYPE)
    return Check(name, "FAIL", "; ".join([summary, *problems]), REPORT_ROWS)


def _reference_memory(model: ModelConfig, dtype: str) -> int:
    """Return the main memory that the reference needs, in bytes."""
    # Checkpoints in bfloat16 double in float32.
    float32_bytes = weight_bytes(model) * 2
    # Outside float32, the model is loaded in both types.
    return float32_bytes if dtype == "float32" else 2 * float32_bytes


def logprob_gap(
    drafts: DraftEngine, model: ModelConfig, cases: Sequence[Case], dtype: str
) -> tuple[float, float]:
    """Compare log-probabilities of sampled tokens with those of Transformers in the same type.

    Returns the largest difference and its bound. Outside float32, the bound is at least four times
    the rounding noise of Transformers.
    """
    sampled: list[tuple[Prompt, list[int]]] = []
    vllm_logprobs: list[float] = []
    for case in cases:
        token_ids: list[int] = []
        for best in drafts.sampled(case.prompt, PARITY_TOKENS):
            # The candidates at a position are in descending order of probability.
            token_id, logprob = next(iter(best.items()))
            token_ids.append(token_id)
            vllm_logprobs.append(logprob)
        sampled.append((case.prompt, token_ids))
    expected = _reference_logprobs(model, dtype, sampled)
    noise = 0.0
    if dtype != "float32":
        exact = _reference_logprobs(model, "float32", sampled)
        noise = float(np.abs(expected - exact).max())
    gap = float(np.abs(np.array(vllm_logprobs) - expected).max())
    return gap, max(MAX_LOGPROB, 4 * noise)


def _reference_logprobs(
    model: ModelConfig, dtype: str, sampled: Sequence[tuple[Prompt, list[int]]]
) -> FloatArray:
    """Return Transformers' log-probabilities of all tokens ``[tokens]``, after their prompts."""
    engine = TransformersEngine(model.path, dtype=dtype)
    by_prompt: list[FloatArray] = []
    for prompt, token_ids in sampled:
        logprobs = engine.logprobs(prompt, token_ids)  # [tokens, vocabulary]
        by_prompt.append(logprobs[range(len(token_ids)), token_ids])
    return np.concatenate(by_prompt)


def _reference(
    model: ModelConfig, dtype: str, drafted: Sequence[tuple[Case, Draft]]
) -> list[AttentionRows]:
    """Return Transformers' attention rows of the tokens of drafts."""
    engine = TransformersEngine(model.path, dtype=dtype)
    return [engine.rows(case.prompt, draft.token_ids, case.readout) for case, draft in drafted]


@dataclass
class Gap:
    """Differences between rows of the same tokens."""

    largest: float = 0.0  # largest difference between attention weights on the source
    mean: float = 0.0  # mean of these differences
    mass: float = 0.0  # largest difference between attention masses outside the source
    weights: int = 0  # number of compared attention weights
    rows: int = 0  # number of single-head rows with any weight on the source
    same_peak: int = 0  # number of these rows with the same source argmax

    def add(self, ours: AttentionRows, theirs: AttentionRows) -> None:
        """Add the differences between the rows of one draft."""
        gap = np.abs(ours.source - theirs.source, dtype=np.float64)
        if not gap.size:
            return
        outside_source = [ours.prompt - theirs.prompt, ours.suffix - theirs.suffix]
        weights = self.weights + gap.size
        self.mean = float((self.mean * self.weights + gap.sum()) / weights)
        self.weights = weights
        # np.maximum, unlike max, propagates NaN.
        self.largest = float(np.maximum(self.largest, gap.max()))
        self.mass = float(np.maximum(self.mass, np.abs(outside_source).max()))
        visible = theirs.source.sum(-1) > 0  # a span outside the sliding window has no peak
        same = ours.source.argmax(-1) == theirs.source.argmax(-1)
        self.rows += int(visible.sum())
        self.same_peak += int(same[visible].sum())

    def missed_exactness(self) -> list[str]:
        """Return the float32 bounds that are exceeded."""
        problems = []
        # The comparisons are negated so that NaN fails.
        if not self.largest <= MAX_FP32:
            problems.append(f"max |dA| {self.largest:.1e} > {MAX_FP32:.0e}")
        if not self.mass <= MAX_FP32:
            problems.append(f"max |d mass| {self.mass:.1e} > {MAX_FP32:.0e}")
        return problems + missed("argmax", self.same_peak, self.rows)

    def missed_mean(self, noise: float) -> list[str]:
        """Return the exceeded bound for other types: the paper's bound or, if larger, ``noise``.

        ``noise`` is the mean difference between two correct computations.
        """
        if self.mean <= max(MEAN_BF16, noise):
            return []
        return [f"mean |dA| {self.mean:.1e} > {MEAN_BF16:.0e} and > noise {noise:.1e}"]


def different_models(gap: float, bar: float = MAX_LOGPROB) -> list[str]:
    """Return a message if vLLM and Transformers compute different functions.

    Log-probabilities of the same tokens then differ by more than rounding errors.
    """
    if gap <= bar:  # NaN fails
        return []
    return [
        f"vLLM and Transformers compute different functions: log-probabilities of the same tokens "
        f"differ by {gap:.1e} > {bar:.0e}, so their rows cannot be compared"
    ]


def bfloat16_constants(path: str, largest: float) -> list[str]:
    """Return a message if constants that vLLM rounds explain the ``largest`` difference."""
    text = AutoConfig.from_pretrained(path).get_text_config(decoder=True)
    if getattr(text, "hidden_act", None) != "xielu" or not largest <= MAX_XIELU:
        return []
    return [
        "vLLM keeps the constants of this model's activation (xIELU) in bfloat16, and "
        "Transformers in float32: this explains the difference; the row capture is correct"
    ]


def missed(what: str, same: int, total: int) -> list[str]:
    """Return a message with the number of equal items, unless all are equal."""
    if same >= total:
        return []
    return [f"{what}: {same} of {total} are equal"]
