"""The check of rows out of vLLM against those of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.machine import GIB
from alignatt_agent.doctor.config_checks import weight_bytes
from alignatt_agent.doctor.machine_checks import Check, free_memory
from alignatt_agent.doctor.row_parity import MAX_LOGPROB, Gap, bfloat16_constants, different_models
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.types import AttentionRows, Draft, Prompt
from alignatt_agent.types.engines import Readout

PARITY_TOKENS = 8
"""Length of the drafts whose rows are compared."""

REPORT_ROWS = "do not use this engine: its rows are wrong. Report the output of this command"

OTHER_TYPE = "set models.translation.dtype to bfloat16, where both round alike, and run again"

OTHER_MODEL = (
    "the rows are not at fault: vLLM or Transformers implements the model wrongly. Take another "
    "model, or find out which of the two is wrong"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt and the rows that its direction reads."""

    prompt: Prompt
    readout: Readout


def parity(drafts: DraftEngine, model: ModelConfig, cases: Sequence[Case], dtype: str) -> Check:
    """Compare rows out of vLLM with those of Transformers' eager attention on the same ids.

    In float32 they are equal up to rounding. In other types the mean difference stays below the
    paper's bound, or below the rounding noise of Transformers itself where that is more.
    """
    name = "rows against Transformers"
    loads = 1 if dtype == "float32" else 2
    need, free = weight_bytes(model) * 2 * loads, free_memory()
    if need > free:
        found = f"skipped: the reference needs {need / GIB:.1f} GiB, {free / GIB:.1f} are free"
        return Check(name, "warn", found, "free main memory and run again")
    answers = [drafts.draft(case.prompt, PARITY_TOKENS, case.readout) for case in cases]
    asked = [
        (case, answer) for case, answer in zip(cases, answers, strict=True) if answer.token_ids
    ]
    if not asked:
        return Check(name, "warn", "every draft is empty: nothing was compared")
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

    Returns the largest difference and its bound: outside float32 four times the rounding noise of
    Transformers itself, where that is more.
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
