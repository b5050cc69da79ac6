"""Run the parity matrix: compare one engine after another with Transformers."""

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.doctor.parity_check import bfloat16_constants
from alignatt_agent.engine.arguments import engine_arguments
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import engine_environment
from alignatt_agent.types import AttentionRows, FloatArray, Prompt
from alignatt_agent.types.engines import DraftRequest, Readout
from lab.bench.fused_attention import ENGINES, Seam
from lab.parity.cases import ENGINE, Dtype, Situations, Subject
from lab.parity.cells import SEAM, Ask, Cell, Head, RequestResult, decide
from lab.reference import Reference

LOGPROBS = 5
"""Log-probabilities of every token."""


Answers = dict[str, list[RequestResult]]
"""The results of an engine by situation."""


# ------------------------------------------------------------------ the engine
def in_new_process(
    model: ModelConfig, heads: tuple[Head, ...], stops: frozenset[int], situations: Situations
) -> Answers:
    """Run an engine in its own process; without heads it has no worker of ours."""
    context = multiprocessing.get_context("spawn")
    with engine_environment(), ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_run, model, heads, stops, situations).result()


def _run(
    model: ModelConfig, heads: tuple[Head, ...], stops: frozenset[int], situations: Situations
) -> Answers:
    # Only the engine runs in this process, so every run forms the same batches.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    engine = LLM(**engine_arguments("translation", model, heads), seed=0)

    def submit(asks: Sequence[Ask], cold: bool) -> list[RequestResult]:
        if cold:
            engine.reset_prefix_cache()
        batch = _Batch(engine, len(asks))

        def answer(number: int, ask: Ask) -> RequestResult:
            return _Member(batch, number).answer(heads, stops, ask)

        # A thread for each request, because each waits for the batch.
        with ThreadPoolExecutor(len(asks)) as pool:
            return list(pool.map(answer, range(len(asks)), asks))

    answers: Answers = {}
    for name, calls in situations.items():
        answers[name] = []
        for call in calls:
            answers[name] += submit(call.asks, call.cold)
    return answers


class _Batch:
    """Requests of several threads, run together and in order as soon as all have arrived."""

    def __init__(self, engine: Any, size: int) -> None:
        self.engine = engine
        self.lock = threading.Lock()
        self._arrived = threading.Barrier(size)
        self._requests: list[tuple[Any, ...]] = [()] * size
        self._outputs: Future[list[Any]] = Future()

    def output(self, number: int, prompt: Any, sampling: Any) -> Any:
        """Return vLLM's answer to the request of one thread."""
        self._requests[number] = prompt, sampling
        if self._arrived.wait() == 0:  # in one of the threads
            try:
                prompts, samplings = map(list, zip(*self._requests, strict=True))
                self._outputs.set_result(self.engine.generate(prompts, samplings, use_tqdm=False))
            except Exception as error:  # every thread waits for it
                self._outputs.set_exception(error)
        return self._outputs.result()[number]


class _Member:
    """One request's place in a batch; it stands for the served model of a ``DraftEngine``."""

    name = "the engine"

    def __init__(self, batch: _Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def answer(self, heads: Sequence[Head], stops: frozenset[int], ask: Ask) -> RequestResult:
        """Draft; an engine without capture gets the same request without asking for rows."""
        served: Any = self
        tokens, readout = ask.max_tokens, ask.readout
        if readout is not None and not heads:
            # With capture, the row at the last emitted token takes one more step.
            if readout.row == "emitted":
                tokens += 1
            readout = None
        request = DraftRequest(ask.prompt, tokens, readout)
        draft = DraftEngine(served, heads, stops).draft(request)
        completion = self._output.outputs[0]
        logprobs = []
        for step in completion.logprobs:
            likely = sorted((token, entry.logprob) for token, entry in step.items())
            logprobs.append(tuple(likely))
        return RequestResult(
            sampled=tuple(completion.token_ids),
            logprobs=tuple(logprobs),
            cached=self._output.num_cached_tokens or 0,
            draft=draft,
        )

    def generate(self, prompt: Mapping[str, Any], sampling: Any) -> Any:
        """Run the request with the others of the batch, see ``ServedModel``."""
        sampling.logprobs = LOGPROBS
        self._output = self._batch.output(self._number, prompt, sampling)
        return self._output

    def ask_workers(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every worker, see ``ServedModel``."""
        with self._batch.lock:
            answers: list[Any] = self._batch.engine.collective_rpc(method, args=arguments)
            return answers


# ------------------------------------------------------------------ the matrix
class References:
    """Transformers engines of one checkpoint; ``engine``, ``rows`` and ``logprobs`` are cached."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        def engine(dtype: str, seam: Seam) -> Reference:
            return ENGINES[seam](str(path), dtype=dtype, device=device)

        def rows(
            prompt: Prompt, ids: tuple[int, ...], readout: Readout, dtype: str, seam: Seam
        ) -> AttentionRows:
            return self.engine(dtype, seam).rows(prompt, ids, readout)

        def logprobs(prompt: Prompt, ids: tuple[int, ...]) -> FloatArray:
            return self.engine("float32", "eager").logprobs(prompt, ids)

        self.path = str(path)
        self.engine = cache(engine)
        self.rows = cache(rows)
        self.logprobs = cache(logprobs)


def measure(
    subjects: Iterable[Subject],
    modes: Mapping[str, Mapping[str, Any]],
    dtypes: Sequence[Dtype],
    device: str = "cpu",
) -> Iterator[Cell]:
    """Run the matrix.

    Yields:
        The judged cells of each model, mode and type, and one for each model and type with the
        gap of Transformers' fused attention to its eager one.
    """
    for subject in subjects:
        references, situations = References(subject.path, device), subject.situations()
        stops = references.engine("float32", "eager").stops
        for dtype in dtypes:
            seam = Cell(subject.name, subject.trained, SEAM, dtype, "sdpa")
            for mode, arguments in modes.items():
                cells = [Cell(subject.name, subject.trained, mode, dtype, x) for x in situations]
                references.engine.cache_clear()  # frees memory for vLLM
                engine = {**ENGINE, **arguments}
                model = ModelConfig(path=str(subject.path), dtype=dtype, engine=engine)
                answers, failure = _with_and_without(model, subject.heads, stops, situations)
                if failure:
                    for cell in cells:
                        cell.problems.append(f"{subject.name} {mode} {dtype} {failure}")
                else:
                    _fill_all(cells, situations, answers, references, seam)
                yield from cells
            if dtype == "float32":
                seam.problems += seam.same_dtype.missed_exactness()
            yield seam


def _with_and_without(
    model: ModelConfig, heads: tuple[Head, ...], stops: frozenset[int], situations: Situations
) -> tuple[list[Answers], str]:
    """Return the answers with and without capture, and the failure of an engine or ``""``."""
    answers: list[Answers] = []
    for how, captured_heads in (("with", heads), ("without", ())):
        try:
            answers.append(in_new_process(model, captured_heads, stops, situations))
        except Exception as error:  # the other engines are worth running
            return answers, f"{how} capture: {type(error).__name__}: {error}"
    return answers, ""


def _fill_all(
    cells: Sequence[Cell],
    situations: Situations,
    answers: Sequence[Answers],
    references: References,
    seam: Cell,
) -> None:
    """Fill the cells of one engine."""
    captured, plain = answers
    # The seam is a property of Transformers, so the drafts of the first engine suffice.
    unmeasured_seam = None if seam.tokens else seam
    for cell in cells:
        name = cell.situation
        asks = [ask for call in situations[name] for ask in call.asks]
        fill(cell, asks, captured[name], plain[name], references, unmeasured_seam)


def fill(
    cell: Cell,
    asks: Sequence[Ask],
    captured: Sequence[RequestResult],
    plain: Sequence[RequestResult],
    references: References,
    seam: Cell | None = None,
) -> None:
    """Compare the answers with the references and judge the cell; also compare the seams."""
    for ask, answer in zip(asks, captured, strict=True):
        ids, captured_rows = answer.draft.token_ids, answer.draft.rows
        if captured_rows is None or ask.readout is None or not ids:
            continue
        cell.add_logprobs(answer, references.logprobs(ask.prompt, answer.sampled))
        eager_rows = references.rows(ask.prompt, ids, ask.readout, cell.dtype, "eager")
        fused_rows = references.rows(ask.prompt, ids, ask.readout, cell.dtype, "sdpa")
        exact_rows = references.rows(ask.prompt, ids, ask.readout, "float32", "eager")
        captured_decisions = decide(ask, answer.draft, captured_rows)
        eager = decide(ask, answer.draft, eager_rows)
        fused = decide(ask, answer.draft, fused_rows)
        exact = decide(ask, answer.draft, exact_rows)
        cell.tokens += len(ids)
        cell.same_dtype.add(captured_rows, eager_rows)
        cell.floor.add(eager_rows, exact_rows)
        cell.verdicts.add(captured_decisions, eager, fused, exact)
        if seam is not None:
            seam.tokens += len(ids)
            seam.same_dtype.add(fused_rows, eager_rows)
            seam.verdicts.add(fused, eager, exact)
    cell.judge(asks, captured, plain)
    if cell.dtype == "float32" and cell.same_dtype.missed_exactness():
        cell.problems += bfloat16_constants(references.path, cell.same_dtype.largest)
