"""Runs the parity matrix: engines one after another, each judged against Transformers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.checks import parity_engine
from alignatt_agent.checks.parity_cases import ENGINE, Ask, Subject
from alignatt_agent.checks.parity_engine import Answer, Job
from alignatt_agent.checks.parity_rows import Cell, Seam, decide
from alignatt_agent.types import AttentionRows

Dtype = Literal["float32", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")


SeamName = Literal["eager", "sdpa"]


class References:
    """Transformers engines of one subject, with the rows they have computed.

    Args:
        path: checkpoint.
        device: torch's name of the device.
    """

    def __init__(self, path: Path, device: str = "cpu") -> None:
        self._path = path
        self._device = device
        self._engines: dict[tuple[str, str], Any] = {}
        self._rows: dict[tuple[Any, ...], AttentionRows] = {}

    def engine(self, dtype: str, seam: SeamName = "eager") -> Any:
        """Return the engine of a type and seam."""
        from alignatt_agent.engine.transformers_engine import TransformersEngine

        if (dtype, seam) not in self._engines:
            self._engines[dtype, seam] = TransformersEngine(
                str(self._path), dtype=dtype, seam=seam, device=self._device
            )
        return self._engines[dtype, seam]

    def rows(self, ask: Ask, answer: Answer, dtype: str, seam: SeamName = "eager") -> AttentionRows:
        """Return the rows of an answer's ids."""
        assert ask.readout is not None
        key = (dtype, seam, ask.case.prompt.token_ids, answer.token_ids, ask.readout.row)
        if key not in self._rows:
            self._rows[key] = self.engine(dtype, seam).rows(
                ask.case.prompt, answer.token_ids, ask.readout
            )
        return self._rows[key]


def measure(
    subjects: Iterable[Subject],
    modes: Mapping[str, Mapping[str, Any]],
    dtypes: Sequence[Dtype],
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
    done: Callable[[Sequence[Cell]], None] = lambda _: None,
) -> tuple[list[Cell], list[Seam]]:
    """Run the matrix.

    Args:
        subjects: the models.
        modes: vLLM arguments of each engine mode.
        dtypes: computation types.
        device: where Transformers runs.
        progress: told which engine is started, two for every combination of the three.
        done: given the cells of every combination once they are judged.

    Returns:
        The judged cells, and the figures of Transformers' two seams against each other.
    """
    cells: list[Cell] = []
    seams: list[Seam] = []
    for item in subjects:
        references = References(item.path, device)
        for dtype in dtypes:
            seam: Seam | None = None
            for mode, arguments in modes.items():
                found, answers = _combination(item, mode, arguments, dtype, references, progress)
                cells += found
                done(found)
                if seam is None and answers is not None:
                    seam = _seam(item, dtype, references, answers)
            seams += [seam] if seam else []
    return cells, seams


def _combination(
    item: Subject,
    mode: str,
    arguments: Mapping[str, Any],
    dtype: Dtype,
    references: References,
    progress: Callable[[str], None],
) -> tuple[list[Cell], dict[str, list[Answer]] | None]:
    """Fill the cells of one model, mode and type."""
    situations = item.situations()
    cells = {name: Cell(item.name, item.trained, mode, dtype, name) for name in situations}
    stops = references.engine("float32").stops
    answers: list[dict[str, list[Answer]]] = []
    for heads in (item.heads, ()):
        what = f"{item.name} {mode} {dtype} {'with' if heads else 'without'} capture"
        job = Job(item.path, dtype, {**ENGINE, **arguments}, heads, stops, situations)
        progress(what)
        try:
            answers.append(in_new_process(job))
        except Exception as error:  # the other engines are worth running
            for cell in cells.values():
                cell.problems.append(f"{what}: {type(error).__name__}: {error}")
            return list(cells.values()), None
    captured, plain = answers
    for name, calls in situations.items():
        asks = [ask for call in calls for ask in call.asks]
        fill(cells[name], asks, captured[name], plain[name], references)
    return list(cells.values()), captured


def fill(
    cell: Cell,
    asks: Sequence[Ask],
    captured: Sequence[Answer],
    plain: Sequence[Answer],
    references: References,
) -> None:
    """Compare what came back with the references, and judge the cell."""
    cell.compare_outputs(captured, plain)
    for ask, answer in _with_rows(asks, captured):
        assert answer.rows is not None
        same = references.rows(ask, answer, cell.dtype)
        fused = references.rows(ask, answer, cell.dtype, "sdpa")
        exact = references.rows(ask, answer, "float32")
        cell.tokens += len(answer.token_ids)
        cell.same_dtype.add(answer.rows, same)
        cell.fp32.add(answer.rows, exact)
        cell.floor.add(same, exact)
        every = (answer.rows, same, fused, exact)
        cell.verdicts.add(*(decide(ask, answer, rows) for rows in every))
    cell.judge(asks, captured)


def _seam(
    item: Subject, dtype: Dtype, references: References, captured: dict[str, list[Answer]]
) -> Seam:
    """Compare Transformers' fused seam with its eager one."""
    seam = Seam(item.name, dtype)
    for name, calls in item.situations().items():
        for ask, answer in _with_rows([ask for call in calls for ask in call.asks], captured[name]):
            same = references.rows(ask, answer, dtype)
            fused = references.rows(ask, answer, dtype, "sdpa")
            exact = references.rows(ask, answer, "float32")
            seam.gap.add(fused, same)
            seam.verdicts.add(*(decide(ask, answer, rows) for rows in (fused, same, exact)))
    return seam


def _with_rows(asks: Sequence[Ask], answers: Sequence[Answer]) -> Iterator[tuple[Ask, Answer]]:
    """Yield the requests that got rows of at least one token."""
    for ask, answer in zip(asks, answers, strict=True):
        if answer.rows is not None and answer.token_ids:
            yield ask, answer


def in_new_process(job: Job) -> dict[str, list[Answer]]:
    """Run an engine in a process that ends with it.

    Raises:
        RuntimeError: the process died.
    """
    from alignatt_agent.engine.options import engine_environment

    context = multiprocessing.get_context("spawn")
    with engine_environment(), ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(parity_engine.run, job).result()
        except BrokenProcessPool as error:
            raise RuntimeError("the engine's process died") from error
