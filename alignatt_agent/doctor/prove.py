"""Verify the faster modes of the translation engine on this machine, so that engines use them.

On a GPU, the modes are CUDA graphs (piecewise and full) and FlashAttention; on a CPU, compilation.
Each mode drafts the same prompts as the eager mode, one by one and concurrently. Token ids,
log-probabilities and attention rows are compared. The eager mode is also compared with Transformers
if main memory allows. The result is stored in the user's cache folder for this GPU, driver,
checkpoint, software builds and heads. An engine with `enforce_eager: auto`, the default for the
translation model on a GPU, starts in the fastest verified mode.

Examples:
  run once on a new machine, and again after an update:
    alignatt prove default-low

exit status: 0 success; 1 the eager mode is wrong; 2 failure before the start
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.command_line import page
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.checks import Check, exit_status
from alignatt_agent.doctor.engine_checks import cases, ms_per_token
from alignatt_agent.doctor.parity_check import MAX_LOGPROB, REPORT_ROWS, Case, Gap, parity
from alignatt_agent.engine import proof
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.start import start_model
from alignatt_agent.types import Draft, EngineError

MAX_TIE = 0.25
"""Largest permitted difference between log-probabilities outside float32, and between two tokens
that may swap ranks: in bfloat16, logits above 16 have steps of 0.125."""

MAX_ROW = 0.05
"""Permitted attention-weight difference outside float32, or 4 times the eager noise if larger."""


@dataclass
class Observed:
    """A mode's drafts for all cases (one by one, then concurrently), and its ms per token.

    ``best`` contains the two best ids at each position with their log-probabilities; ``noise`` is
    the difference between the rows of decode steps and those of a prefill.
    """

    drafts: list[Draft]
    best: list[list[dict[int, float]]]
    ms: float
    noise: Gap


def examine(resolved: Resolved, reference: bool = True) -> Iterator[Check]:
    """Compare all modes (the eager mode with Transformers if ``reference``); store the verdict."""
    model, heads = resolved.checkpoints.translation, resolved.heads
    transcribes = resolved.checkpoints.asr_is_translation
    eager: Observed | None = None
    verdicts: dict[str, Any] = {}
    if not heads:
        yield Check("modes", "warn", "not compared: no head set is configured")
        return
    # The eager mode is the first one; the other modes are compared with it.
    modes = proof.CPU_MODES if on_cpu() else proof.GPU_MODES
    for mode in modes:
        name = f"mode: {mode}"
        served: ServedModel | None = None
        observed: Observed | None = None
        try:
            started = model.model_copy(update={"engine": proof.in_mode(model, mode)})
            served = start_model("translation", started, heads, transcribes)
            prompts = cases(resolved, served.tokenizer())
            dtype = str(served.config.dtype).removeprefix("torch.")
            drafts = DraftEngine(served, heads)
            if eager is None and reference:
                check = parity(drafts, model, prompts, dtype)
                yield check
                if check.status == "FAIL":
                    return
            observed = observe(drafts, prompts, resolved.config.max_draft_tokens)
            # Compared with itself, the eager mode shows whether concurrent drafts are the same.
            problems = differences(eager or observed, observed, dtype == "float32")
            if eager is None and not problems:
                eager = observed
        except EngineError as error:
            problems = [str(error).splitlines()[0]]
        finally:
            if served is not None:
                served.shutdown()
        ms = round(observed.ms, 2) if observed else None
        verdicts[mode] = {"ms": ms, "problems": problems}
        result = f"{ms} ms per token"
        if problems:
            result = f"refused: {'; '.join(problems)}"
        if eager is None:
            yield Check(name, "FAIL", result, REPORT_ROWS)
            return
        fix = "none needed: engines do not use this mode"
        yield Check.judged(name, not problems, result, fix, "warn")
    about = proof.subject(model, heads)
    path = proof.write(about, verdicts)
    yield Check("verdict", "ok", f"engines start in mode {proof.fastest(about)!r} (see {path})")


def observe(drafts: DraftEngine, cases: Sequence[Case], tokens: int) -> Observed:
    """Draft every case with at most ``tokens`` tokens; measure speed and noise."""

    def draft(case: Case) -> Draft:
        return drafts.draft(case.request(tokens))

    one_by_one = [draft(case) for case in cases]
    # A batch of several requests runs other kernels, and other CUDA graphs.
    with ThreadPoolExecutor(len(cases)) as threads:
        concurrent = list(threads.map(draft, cases))
    noise = Gap()
    for case, single in zip(cases, one_by_one, strict=True):
        if single.rows is not None and single.token_ids:
            noise.add(single.rows, drafts.rows(case.prompt, single.token_ids, case.readout))
    return Observed(
        drafts=one_by_one + concurrent,
        best=[drafts.sampled(case.prompt, tokens) for case in cases],
        ms=ms_per_token(drafts, cases, tokens),
        noise=noise,
    )


def differences(eager: Observed, mode: Observed, exact: bool) -> list[str]:
    """Return the errors of a mode; near-ties may differ unless ``exact`` (float32)."""
    gap = Gap()
    different_drafts = 0
    case_count = len(eager.best)
    for place, draft in enumerate(mode.drafts):
        # All drafts, also the concurrent ones, are compared with the eager mode's first ones.
        case = place % case_count
        expected = eager.drafts[case]
        same = _common_prefix(draft.token_ids, expected.token_ids)
        is_different = draft.token_ids != expected.token_ids
        if is_different and (exact or _is_decided(eager.best[case], same)):
            different_drafts += 1
        assert draft.rows is not None
        assert expected.rows is not None
        gap.add(draft.rows[:same], expected.rows[:same])
    logprob_gap = 0.0
    for ours, theirs in zip(mode.best, eager.best, strict=True):
        # np.maximum, unlike max, propagates NaN.
        logprob_gap = float(np.maximum(logprob_gap, _logprob_gap(ours, theirs)))
    if exact:
        problems, bound = gap.missed_exactness(), MAX_LOGPROB
    else:
        problems, bound = gap.missed_mean(eager.noise.mean), MAX_TIE
        if not gap.largest <= max(MAX_ROW, 4 * eager.noise.largest):
            problems.append(f"max |dA| {gap.largest:.1e} > {MAX_ROW:.0e} and > 4 times the noise")
    if not gap.rows:
        problems.append("no row was compared")
    if different_drafts:
        problems.append(f"{different_drafts} of {len(mode.drafts)} drafts differ")
    if not logprob_gap <= bound:
        problems.append(f"log-probabilities differ by {logprob_gap:.1e} > {bound:.0e}")
    return problems


def _common_prefix(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Return the number of equal token ids before the first difference."""
    count = 0
    for our_id, their_id in zip(ours, theirs, strict=False):
        if our_id != their_id:
            break
        count += 1
    return count


def _is_decided(best: Sequence[Mapping[int, float]], position: int) -> bool:
    """Return whether rounding cannot swap the two best tokens at a position."""
    if position >= len(best):
        return True
    logprobs = sorted(best[position].values())
    return logprobs[-1] - logprobs[0] > MAX_TIE


def _logprob_gap(
    ours: Sequence[Mapping[int, float]], theirs: Sequence[Mapping[int, float]]
) -> float:
    """Return the largest difference between log-probabilities of the same tokens.

    Infinite if no token at a position is the same.
    """
    largest = 0.0
    for our_best, their_best in zip(ours, theirs, strict=False):
        shared = our_best.keys() & their_best.keys()
        gaps = [abs(our_best[token_id] - their_best[token_id]) for token_id in shared]
        largest = float(np.maximum(largest, max(gaps, default=np.inf)))
        if next(iter(our_best)) != next(iter(their_best)):
            break  # later positions have a different context
    return largest


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt prove", **page(__doc__))
    parser.add_argument("config", help="name or path of a YAML configuration")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    from transformers.utils import logging  # reads the environment when it is imported

    logging.disable_progress_bar()
    arguments = build_parser().parse_args(argv)
    config = load_config(arguments.config)
    checks: list[Check] = []
    for check in examine(Runtime().resolve(config)):
        checks.append(check)
        print(check, flush=True)
    return exit_status(checks)
