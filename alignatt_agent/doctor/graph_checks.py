"""The part of ``alignatt doctor`` that compares CUDA graphs with eager execution.

It needs a CUDA device. It was never run: none was at hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.engine_checks import PARITY_TOKENS, REPORT_ROWS, Case, cases, first_rows
from alignatt_agent.doctor.machine_checks import Check
from alignatt_agent.doctor.row_parity import MEAN_BF16, Gap
from alignatt_agent.engine import pool
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import on_cpu
from alignatt_agent.types import Draft, EngineError

ODD_BATCHES = (1, 3, 5, 7)
"""Batch sizes that CUDA graphs are padded for."""


def examine(resolved: Resolved) -> Iterator[Check]:
    """Compare CUDA graphs with eager execution at batch sizes that graphs are padded for."""
    if on_cpu() or not resolved.heads:
        return
    model, heads, fix = (
        resolved.checkpoints.translation,
        resolved.heads,
        "run with enforce_eager: true",
    )
    expected: list[Draft] = []
    for mode in ("eager", "PIECEWISE", "FULL"):
        name, served = f"CUDA graphs: {mode}", None
        settings: dict[str, Any] = {"enforce_eager": mode == "eager"}
        if mode != "eager":
            settings["compilation_config"] = {"cudagraph_mode": mode}
        try:
            served = pool.start("translation", model, heads, **settings)
            drafts, asked = pool.draft_engine(served, heads), cases(resolved, served.tokenizer())
            asked = (asked * max(ODD_BATCHES))[: max(ODD_BATCHES)]
            found = [_together(drafts, asked[:size]) for size in ODD_BATCHES]
            expected = expected or found[-1]
            begin = time.perf_counter()
            alone = _together(drafts, asked[:1])
            spent = (time.perf_counter() - begin) / max(len(alone[0].token_ids), 1)
            yield graph_check(name, found, expected, spent)
        except EngineError as error:
            yield Check(name, "FAIL", str(error).splitlines()[0], fix)
        finally:
            if served is not None:
                served.shutdown()


def _together(drafts: DraftEngine, cases: Sequence[Case]) -> list[Draft]:
    """Draft all cases at the same time."""

    def draft(case: Case) -> Draft:
        return drafts.draft(case.prompt, PARITY_TOKENS, case.readout)

    with ThreadPoolExecutor(len(cases)) as threads:
        return list(threads.map(draft, cases))


def graph_check(
    name: str, found: Sequence[Sequence[Draft]], expected: Sequence[Draft], token_s: float
) -> Check:
    """Compare drafts with the eager ones as far as their tokens agree.

    Args:
        name: the mode.
        found: drafts of batches of several sizes.
        expected: drafts of the largest batch in eager mode.
        token_s: seconds that a token of a draft alone takes.
    """
    gap, same, total = Gap(), 0, 0
    for ours, theirs in (pair for batch in found for pair in zip(batch, expected, strict=False)):
        pairs = zip(ours.token_ids, theirs.token_ids, strict=False)
        agreed = next((i for i, (a, b) in enumerate(pairs) if a != b), PARITY_TOKENS)
        gap.add(first_rows(ours, agreed), first_rows(theirs, agreed))
        same += ours.token_ids == theirs.token_ids
        total += 1
    text = f"{same} of {total} drafts as in eager mode, mean |dA| {gap.mean:.1e}"
    text += f", {1000 * token_s:.1f} ms per token"
    if not gap.mean <= MEAN_BF16:
        return Check(name, "FAIL", text, REPORT_ROWS)
    # A batch of another size rounds differently, which may tip a token without any fault.
    tipped = "" if same == total else "harmless in bfloat16 if few; run with enforce_eager: true"
    return Check(name, "warn" if tipped else "ok", text, tipped)
