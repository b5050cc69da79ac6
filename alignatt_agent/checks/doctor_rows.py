"""Checks of a running translation engine: are its rows right, invisible and fast enough?

``graphs`` needs a CUDA device. It was never run: none was at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from alignatt_agent.checks.doctor_facts import free_memory, weight_bytes
from alignatt_agent.checks.doctor_machine import GIB, Check
from alignatt_agent.checks.parity_rows import MAX_FP32, MEAN_BF16
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import stop_ids
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.policy import AlignAtt, Policy
from alignatt_agent.types import AttentionRows, Draft, EngineError, Prompt, Readout

PARITY_TOKENS = 8
"""Length of the drafts whose rows are compared."""

ODD_BATCHES = (1, 3, 5, 7)
"""Batch sizes that CUDA graphs are padded for."""

REPORT_ROWS = "do not run with this engine: its rows are wrong. Report the output of this command"


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt and the rows that its direction reads."""

    prompt: Prompt
    readout: Readout


def layout(served: ServedModel) -> Check:
    """Describe the layout that the start-up probe found; an unknown one does not start."""
    found: dict[str, Any] = served.ask_workers("alignatt_describe")[0]
    backends, caches = ", ".join(found["backends"]), ", ".join(found["caches"])
    return Check("key layout", "ok", f"probed: {backends}, {found['cache_dtype']} pages {caches}")


def parity(drafts: DraftEngine, model: ModelConfig, cases: Sequence[Case], dtype: str) -> Check:
    """Compare rows out of vLLM with those of Transformers' eager attention on the same ids.

    In float32 they have to be equal up to rounding. In other types the mean difference may not
    exceed the paper's bound, or what the type does to Transformers itself where that is more.
    """
    name = "rows against Transformers"
    loads = 1 if dtype == "float32" else 2
    need, free = weight_bytes(model) * 2 * loads, free_memory()
    if need > free:
        found = f"skipped: the reference needs {need / GIB:.1f} GiB, {free / GIB:.1f} are free"
        return Check(name, "warn", found, "free main memory and run again")
    answers = [drafts.draft(case.prompt, PARITY_TOKENS, case.readout) for case in cases]
    expected = _reference(model, dtype, cases, answers)
    gaps = [_gap(a.rows, e) for a, e in zip(answers, expected, strict=True) if a.token_ids]
    if not gaps:
        return Check(name, "warn", "every draft is empty: nothing was compared")
    largest = float(np.concatenate(gaps).max())
    mean = float(np.concatenate(gaps).mean())
    found = f"{dtype}: max |dA| {largest:.1e}, mean {mean:.1e}"
    if dtype == "float32":
        good = largest <= MAX_FP32
        found += f" (max <= {MAX_FP32:.0e})"
    else:
        exact = _reference(model, "float32", cases, answers)
        noise = [_gap(e, x) for e, x in zip(expected, exact, strict=True)]
        floor = float(np.concatenate(noise).mean())
        good = mean <= max(MEAN_BF16, floor)
        found += f" (mean <= {MEAN_BF16:.0e} or the noise floor, {floor:.1e})"
    return Check(name, "ok" if good else "FAIL", found, "" if good else REPORT_ROWS)


def _reference(
    model: ModelConfig, dtype: str, cases: Sequence[Case], answers: Sequence[Draft]
) -> list[AttentionRows | None]:
    engine = TransformersEngine(model.path, dtype=dtype)
    return [
        engine.rows(case.prompt, answer.token_ids, case.readout) if answer.token_ids else None
        for case, answer in zip(cases, answers, strict=True)
    ]


def _gap(ours: AttentionRows | None, theirs: AttentionRows | None) -> Any:
    """Return all differences; what is not a number counts as infinite."""
    if ours is None or theirs is None:
        return np.zeros(0)
    pairs = ((ours.source, theirs.source), (ours.prompt, theirs.prompt))
    gap = np.concatenate([np.abs(a - b, dtype=np.float64).ravel() for a, b in pairs])
    return np.nan_to_num(gap, nan=np.inf)


def identity(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> Check:
    """Compare requests with rows with the same requests without."""
    name = "same tokens with rows"
    plain = [drafts.draft(case.prompt, tokens).token_ids for case in cases]
    rows = [drafts.draft(case.prompt, tokens, case.readout).token_ids for case in cases]
    same = sum(a == b for a, b in zip(plain, rows, strict=True))
    found = f"{same} of {len(cases)} drafts"
    return Check(name, *(("ok", found) if same == len(cases) else ("FAIL", found, REPORT_ROWS)))


def early_stop(drafts: DraftEngine, cases: Sequence[Case], policy: Policy, tokens: int) -> Check:
    """Compare the decisions on drafts that the gate ended with those on whole drafts."""
    name, same, total, steps = "early stop", 0, 0, [0, 0]
    if not isinstance(policy, AlignAtt):
        return Check(name, "ok", "not used: the policy has no gate that an engine could run")
    for case in cases:
        for quarter in (1, 2, 3):
            frontier = max(1, len(case.prompt.token_word) * quarter // 4)
            whole = drafts.draft(case.prompt, tokens, case.readout)
            short = drafts.draft(case.prompt, tokens, case.readout, policy.gate(frontier))
            first, second = policy.decide(whole, frontier), policy.decide(short, frontier)
            accepted = first.accepted
            same += (accepted, whole.token_ids[:accepted]) == (
                second.accepted,
                short.token_ids[:accepted],
            )
            total += 1
            steps = [steps[0] + whole.steps, steps[1] + short.steps]
    found = f"{same} of {total} decisions are those of whole drafts, {steps[1]}/{steps[0]} steps"
    if same < total:
        return Check(name, "FAIL", found, "set policy.early_stop to false, and report this output")
    return Check(name, "ok", found)


def speed(drafts: DraftEngine, cases: Sequence[Case], tokens: int, chunk_ms: int) -> Check:
    """Time drafts with rows; one has to fit into a chunk."""
    name, figures = "speed", []
    for case in [cases[0], cases[0], *cases, *cases]:
        start = time.perf_counter()
        draft = drafts.draft(case.prompt, tokens, case.readout)
        elapsed = 1000 * (time.perf_counter() - start)
        figures.append(elapsed / max(1, draft.steps or len(draft.token_ids)))
    per_token = median(figures[2:])
    longest = per_token * tokens
    found = f"{per_token:.1f} ms per token, a draft of {tokens} takes {longest:.0f} ms"
    if longest > chunk_ms:
        found += f", more than a chunk of {chunk_ms} ms"
        return Check(name, "warn", found, "raise chunk_ms, or run on a faster device")
    return Check(name, "ok", found)


def graphs(
    model: ModelConfig,
    heads: Sequence[tuple[int, int]],
    cases_of: Callable[[ServedModel], list[Case]],
) -> Iterator[Check]:
    """Compare CUDA graphs with eager execution at batch sizes that graphs are padded for.

    Args:
        model: the translation checkpoint.
        heads: heads to capture.
        cases_of: builds the prompts for a started engine.
    """
    expected: list[Draft] = []
    for mode in ("eager", "PIECEWISE", "FULL"):
        name = f"CUDA graphs: {mode}"
        settings: dict[str, Any] = {"enforce_eager": mode == "eager"}
        if mode != "eager":
            settings["compilation_config"] = {"cudagraph_mode": mode}
        try:
            arguments = {**engine_arguments("translation", model, heads), **settings}
            served = ServedModel(name, arguments)
        except (EngineError, OSError, ValueError) as error:
            yield Check(name, "FAIL", str(error).splitlines()[0], "run with enforce_eager: true")
            continue
        try:
            drafts, cases = DraftEngine(served, heads, stop_ids(served)), cases_of(served)
            cases = (cases * max(ODD_BATCHES))[: max(ODD_BATCHES)]
            found = [_together(drafts, cases[:size]) for size in ODD_BATCHES]
            expected = expected or found[-1]
            yield _graph_check(name, found, expected)
        except EngineError as error:
            yield Check(name, "FAIL", str(error).splitlines()[0], "run with enforce_eager: true")
        finally:
            served.shutdown()


def _together(drafts: DraftEngine, cases: Sequence[Case]) -> list[Draft]:
    """Draft all cases at the same time."""

    def draft(case: Case) -> Draft:
        return drafts.draft(case.prompt, PARITY_TOKENS, case.readout)

    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(draft, cases))


def _graph_check(name: str, found: list[list[Draft]], expected: list[Draft]) -> Check:
    """Compare drafts with the eager ones as far as their tokens agree."""
    gaps, same, total = [np.zeros(1)], 0, 0
    for batch in found:
        for ours, theirs in zip(batch, expected, strict=False):
            pairs = zip(ours.token_ids, theirs.token_ids, strict=False)
            agreed = next((i for i, (a, b) in enumerate(pairs) if a != b), PARITY_TOKENS)
            gaps.append(_gap(_first(ours.rows, agreed), _first(theirs.rows, agreed)))
            same += ours.token_ids == theirs.token_ids
            total += 1
    mean = float(np.concatenate(gaps).mean())
    text = f"{same} of {total} drafts as in eager mode, mean |dA| {mean:.1e}"
    if not mean <= MEAN_BF16:
        return Check(name, "FAIL", text, REPORT_ROWS)
    # A batch of another size rounds differently, which may tip a token without any fault.
    tipped = "" if same == total else "harmless in bfloat16 if few; run with enforce_eager: true"
    return Check(name, "warn" if tipped else "ok", text, tipped)


def _first(rows: AttentionRows | None, count: int) -> AttentionRows | None:
    if rows is None:
        return None
    return AttentionRows(rows.source[:count], rows.prompt[:count], rows.suffix[:count])
