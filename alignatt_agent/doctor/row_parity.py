"""How far attention rows may be from those of Transformers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignatt_agent.types import AttentionRows

MAX_FP32 = 1e-4
"""Largest difference that a row may have in float32."""

MEAN_BF16 = 4e-4
"""Largest mean difference in bfloat16 on a trained model, as in the paper."""

MAX_LOGPROB = 1e-2
"""Largest difference that log-probabilities of the same tokens may have in float32. Where it is
larger, vLLM and Transformers compute different models, and rows cannot be compared (measured: 2e-4
for models that are the same, 0.2 for Cohere2, whose window is a position wider in vLLM, and 14 for
OLMoE, which vLLM does not clip)."""

MAX_XIELU = 1e-2
"""Largest difference that vLLM's xIELU explains in float32 (measured: 6e-4 on Apertus)."""


@dataclass
class Gap:
    """Differences between rows of the same tokens.

    Attributes:
        largest: largest difference of an attention weight of the source span.
        mean: mean difference there.
        mass: largest difference of a mass outside the span.
        weights: compared attention weights.
        rows: rows of one head with any weight on the source.
        same_peak: those whose source argmax is the same.
    """

    largest: float = 0.0
    mean: float = 0.0
    mass: float = 0.0
    weights: int = 0
    rows: int = 0
    same_peak: int = 0

    def add(self, ours: AttentionRows, theirs: AttentionRows) -> None:
        """Count in the rows of one answer."""
        gap = np.abs(ours.source - theirs.source, dtype=np.float64)
        if not gap.size:
            return
        masses = [ours.prompt - theirs.prompt, ours.suffix - theirs.suffix]
        weights = self.weights + gap.size
        self.mean = float((self.mean * self.weights + gap.sum()) / weights)
        self.weights = weights
        # np.maximum, unlike max, hands on what is not a number.
        self.largest = float(np.maximum(self.largest, gap.max()))
        self.mass = float(np.maximum(self.mass, np.abs(masses).max()))
        visible = theirs.source.sum(-1) > 0  # a span that left the window has no peak
        same = ours.source.argmax(-1) == theirs.source.argmax(-1)
        self.rows += int(visible.sum())
        self.same_peak += int(same[visible].sum())

    def missed_exactness(self) -> list[str]:
        """Name the bounds of float32 that are exceeded."""
        problems = []
        # Written so that what is not a number fails.
        if not self.largest <= MAX_FP32:
            problems.append(f"max |dA| {self.largest:.1e} > {MAX_FP32:.0e}")
        if not self.mass <= MAX_FP32:
            problems.append(f"max |d mass| {self.mass:.1e} > {MAX_FP32:.0e}")
        return problems + missed("argmax", self.same_peak, self.rows)

    def missed_mean(self, floor: Gap) -> list[str]:
        """Name the exceeded bound of other types: the paper's, or the noise ``floor``."""
        if self.mean <= max(MEAN_BF16, floor.mean):
            return []
        return [f"mean |dA| {self.mean:.1e} > {MEAN_BF16:.0e} and > noise floor {floor.mean:.1e}"]


def different_models(gap: float, bar: float = MAX_LOGPROB) -> list[str]:
    """Say that vLLM and Transformers compute different models, whose rows cannot be compared.

    That is where log-probabilities of the same tokens differ by more than rounding explains.
    """
    if gap <= bar:  # what is not a number fails
        return []
    return [
        f"vLLM and Transformers compute different models: log-probabilities of the same tokens "
        f"differ by {gap:.1e} > {bar:.0e}, so their rows cannot be compared"
    ]


def bfloat16_constants(path: str, largest: float) -> list[str]:
    """Say whose difference rows have in float32 where vLLM rounds constants of the model.

    Args:
        path: checkpoint.
        largest: largest difference of an attention weight.
    """
    from transformers import AutoConfig

    text = AutoConfig.from_pretrained(path).get_text_config(decoder=True)
    if getattr(text, "hidden_act", None) != "xielu" or not largest <= MAX_XIELU:
        return []
    return [
        "vLLM keeps the constants of this model's activation (xIELU) in bfloat16, Transformers in "
        "float32: the difference is the activation's, and capture is not at fault"
    ]


def missed(what: str, same: int, total: int) -> list[str]:
    """Say how many are the same, where not all are."""
    return [f"{what}: {same} of {total} the same"] if same < total else []
