"""Compare the attention rows of vLLM with those of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import AutoConfig

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.config.machine import GIB
from alignatt_agent.doctor.checks import Check
from alignatt_agent.doctor.machine_checks import free_memory
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.types import AttentionRows, Draft, Prompt
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
    paper's bound or the rounding noise of Transformers, whichever is larger.
    """
    name = "rows against Transformers"
    loads = 1 if dtype == "float32" else 2
    need, free = weight_bytes(model) * 2 * loads, free_memory()
    if need > free:
        found = f"skipped: the reference needs {need / GIB:.1f} GiB; {free / GIB:.1f} GiB are free"
        return Check(name, "warn", found, "free main memory, and run the command again")
    answers = [drafts.draft(case.request(PARITY_TOKENS)) for case in cases]
    asked = [
        (case, answer) for case, answer in zip(cases, answers, strict=True) if answer.token_ids
    ]
    if not asked:
        return Check(name, "warn", "nothing was compared: all drafts are empty")
    expected, gap = _reference(model, dtype, asked), Gap()
    for (_, answer), rows in zip(asked, expected, strict=True):
        assert answer.rows is not None
        gap.add(answer.rows, rows)
    found = f"{dtype}: max |dA| {gap.largest:.1e}, mean {gap.mean:.1e}"
    if dtype == "float32":
        problems = gap.missed_exactness()
    else:
        floor = Gap()
        for rows, exact in zip(expected, _reference(model, "float32", asked), strict=True):
            floor.add(rows, exact)
        found += f" (noise floor {floor.mean:.1e})"
        problems = gap.missed_mean(floor)
    if not problems:
        return Check(name, "ok", found)
    if different := different_models(*logprob_gap(drafts, model, cases, dtype)):
        return Check(name, "FAIL", "; ".join([found, *different]), OTHER_MODEL)
    if dtype == "float32" and (rounded := bfloat16_constants(model.path, gap.largest)):
        return Check(name, "warn", "; ".join([found, *rounded]), OTHER_TYPE)
    return Check(name, "FAIL", "; ".join([found, *problems]), REPORT_ROWS)


def logprob_gap(
    drafts: DraftEngine, model: ModelConfig, cases: Sequence[Case], dtype: str
) -> tuple[float, float]:
    """Compare log-probabilities of sampled tokens with those of Transformers in the same type.

    Returns the largest difference and its bound. Outside float32, the bound is at least four times
    the rounding noise of Transformers.
    """
    answers = [(case.prompt, drafts.sampled(case.prompt, PARITY_TOKENS)) for case in cases]
    known = [np.array([next(iter(found.values())) for _, best in answers for found in best])]
    for kind in dict.fromkeys((dtype, "float32")):
        engine = TransformersEngine(model.path, dtype=kind)
        theirs = []
        for prompt, best in answers:
            ids = [next(iter(found)) for found in best]
            theirs.append(engine.logprobs(prompt, ids)[range(len(ids)), ids])
        known.append(np.concatenate(theirs))
    ours, same, *exact = known
    noise = float(np.abs(same - exact[0]).max()) if exact else 0.0
    return float(np.abs(ours - same).max()), max(MAX_LOGPROB, 4 * noise)


def _reference(
    model: ModelConfig, dtype: str, asked: Sequence[tuple[Case, Draft]]
) -> list[AttentionRows]:
    engine = TransformersEngine(model.path, dtype=dtype)
    return [engine.rows(case.prompt, answer.token_ids, case.readout) for case, answer in asked]


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
        masses = [ours.prompt - theirs.prompt, ours.suffix - theirs.suffix]
        weights = self.weights + gap.size
        self.mean = float((self.mean * self.weights + gap.sum()) / weights)
        self.weights = weights
        # np.maximum, unlike max, propagates NaN.
        self.largest = float(np.maximum(self.largest, gap.max()))
        self.mass = float(np.maximum(self.mass, np.abs(masses).max()))
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

    def missed_mean(self, floor: Gap) -> list[str]:
        """Return the exceeded bound for other types: the paper's bound or, if larger, the noise."""
        if self.mean <= max(MEAN_BF16, floor.mean):
            return []
        return [f"mean |dA| {self.mean:.1e} > {MEAN_BF16:.0e} and > noise floor {floor.mean:.1e}"]


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
    return [f"{what}: {same} of {total} are equal"] if same < total else []
