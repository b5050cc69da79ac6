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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
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
from alignatt_agent.engine.options import on_cpu
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
    modes: dict[str, Any] = {}
    if not heads:
        yield Check("modes", "warn", "not compared: no head set is configured")
        return
    for mode in proof.CPU_MODES if on_cpu() else proof.GPU_MODES:
        name, served, found = f"mode: {mode}", None, None
        try:
            started = model.model_copy(update={"engine": proof.in_mode(model, mode)})
            served = start_model("translation", started, heads, transcribes)
            asked, dtype = cases(resolved, served.tokenizer()), served.config.dtype
            exact = str(dtype) == "torch.float32"
            drafts = DraftEngine(served, heads)
            if eager is None and reference:
                check = parity(drafts, model, asked, str(dtype).removeprefix("torch."))
                yield check
                if check.status == "FAIL":
                    return
            found = observe(drafts, asked, resolved.config.max_draft_tokens)
            problems = differences(eager or found, found, exact)
            eager = eager or (None if problems else found)
        except EngineError as error:
            problems = [str(error).splitlines()[0]]
        finally:
            if served is not None:
                served.shutdown()
        ms = round(found.ms, 2) if found else None
        modes[mode] = {"ms": ms, "problems": problems}
        said = f"refused: {'; '.join(problems)}" if problems else f"{ms} ms per token"
        if eager is None:
            yield Check(name, "FAIL", said, REPORT_ROWS)
            return
        fix = "none needed: engines do not use this mode"
        yield Check.judged(name, not problems, said, fix, "warn")
    about = proof.subject(model, heads)
    path = proof.write(about, modes)
    yield Check("verdict", "ok", f"engines start in mode {proof.fastest(about)!r} (see {path})")


def observe(drafts: DraftEngine, asked: Sequence[Case], tokens: int) -> Observed:
    """Draft every case with at most ``tokens`` tokens; measure speed and noise."""
    answers: list[Draft] = []
    for count in (1, len(asked)):
        with ThreadPoolExecutor(count) as threads:
            answers += threads.map(lambda case: drafts.draft(case.request(tokens)), asked)
    noise = Gap()
    for case, answer in zip(asked, answers, strict=False):
        if answer.rows is not None and answer.token_ids:
            noise.add(answer.rows, drafts.rows(case.prompt, answer.token_ids, case.readout))
    best = [drafts.sampled(case.prompt, tokens) for case in asked]
    return Observed(answers, best, ms_per_token(drafts, asked, tokens), noise)


def differences(eager: Observed, other: Observed, exact: bool) -> list[str]:
    """Return the errors of a mode; near-ties may differ unless ``exact`` (float32)."""
    gap, moved, logs, count = Gap(), 0, 0.0, len(eager.best)
    for place, ours in enumerate(other.drafts):
        theirs, best = eager.drafts[place % count], eager.best[place % count]
        same = sum(1 for _ in takewhile(bool, map(eq, ours.token_ids, theirs.token_ids)))
        if ours.token_ids != theirs.token_ids:
            two = sorted(best[same].values()) if same < len(best) else [-np.inf, 0.0]
            moved += exact or two[-1] - two[0] > MAX_TIE
        assert ours.rows is not None
        assert theirs.rows is not None
        gap.add(ours.rows[:same], theirs.rows[:same])
    for pair in zip(other.best, eager.best, strict=True):
        for one, another in zip(*pair, strict=False):
            gaps = [abs(one[token] - another[token]) for token in one.keys() & another.keys()]
            logs = float(np.maximum(logs, max(gaps, default=np.inf)))
            if next(iter(one)) != next(iter(another)):
                break  # later positions have a different context
    if exact:
        problems, bound = gap.missed_exactness(), MAX_LOGPROB
    else:
        problems, bound = gap.missed_mean(eager.noise), MAX_TIE
        if not gap.largest <= max(MAX_ROW, 4 * eager.noise.largest):
            problems.append(f"max |dA| {gap.largest:.1e} > {MAX_ROW:.0e} and > 4 times the noise")
    if not gap.rows:
        problems.append("no row was compared")
    if moved:
        problems.append(f"{moved} of {len(other.drafts)} drafts differ")
    if not logs <= bound:
        problems.append(f"log-probabilities differ by {logs:.1e} > {bound:.0e}")
    return problems


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt prove", **page(__doc__))
    parser.add_argument("config", help="name or path of a YAML configuration")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    from transformers.utils import logging  # reads the environment when it is imported

    logging.disable_progress_bar()
    config, checks = load_config(build_parser().parse_args(argv).config), []
    for check in examine(Runtime().resolve(config)):
        checks.append(check)
        print(check, flush=True)
    return exit_status(checks)
