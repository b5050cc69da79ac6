"""Rows read on a cluster: pairs go to workers in batches, what they count comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from alignatt_agent.calibration.head_scores import Hits, read_pairs_of
from alignatt_agent.calibration.pairs import PairError
from alignatt_agent.calibration.row_reader import Engine, Loaded, Reader, open_reader
from alignatt_agent.calibration.translation_score import AlignedPair, Row
from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.workers import Job, JobFailedError, Workers
from alignatt_agent.config.agent_config import ModelConfig

BATCH = 8
"""Pairs of a job: a lost worker costs that much."""

MOST = 64
"""More workers than any calibration has work for."""

Numbered = tuple[int, AlignedPair]


@contextlib.contextmanager
def open_readers(engine: Engine, model: ModelConfig, cluster: ClusterOptions) -> Iterator[Loaded]:
    """Load a model for calibration on every worker of a cluster.

    Args:
        engine: ``"vllm"`` or ``"transformers"``.
        model: the checkpoint.
        cluster: where.

    Raises:
        ClusterError: the cluster cannot be used.
        EngineError: the engine did not start on a worker.
    """
    with joined(cluster.address), Workers(cluster, MOST, _close) as workers:

        def read(
            pairs: Sequence[Numbered], rankings: dict[Row, list[int]] | None
        ) -> Iterator[tuple[int, Hits | PairError]]:
            jobs = [
                Job(
                    f"pairs from {i + 1} on", _read, (engine, model, pairs[i : i + BATCH], rankings)
                )
                for i in range(0, len(pairs), BATCH)
            ]
            try:
                for _, found in workers.results(jobs):
                    yield from found
            except JobFailedError as error:
                raise error.cause from None

        ((_, described),) = workers.results([Job("loading", _describe, (engine, model))])
        yield replace(described, elsewhere=read)


_stack = contextlib.ExitStack()
_opened: dict[str, Loaded] = {}


def _open(engine: Engine, model: ModelConfig) -> Loaded:
    """Return the model of this worker."""
    key = f"{engine} {model.model_dump_json()}"
    if key not in _opened:
        _opened[key] = _stack.enter_context(open_reader(engine, model))
    return _opened[key]


def _describe(engine: Engine, model: ModelConfig) -> Loaded:
    """Return all of the model but the model."""
    return replace(_open(engine, model), reader=cast(Reader, None))


def _read(
    engine: Engine,
    model: ModelConfig,
    pairs: Sequence[Numbered],
    rankings: dict[Row, list[int]] | None,
) -> list[tuple[int, Hits | PairError]]:
    return list(read_pairs_of(_open(engine, model), pairs, rankings))


def _close() -> None:
    _opened.clear()
    _stack.close()
