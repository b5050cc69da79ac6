"""The result of one request from all workers of an engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import EngineError, FloatArray


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """Rows and verification of one request, over all workers.

    Attributes:
        rows: ``[rows, heads, 2 + S]``; ``None`` when no worker captures a head.
        next_token: the token that greedy decoding would have taken where the request was ended;
            ``None`` when it was not, or when that token is not known.
        replay_s: seconds that the rows took.
        agreed: how many of the expected tokens are verified.
        rejected: whether the gate closed.
    """

    rows: FloatArray | None
    next_token: int | None
    replay_s: float
    agreed: int
    rejected: bool


def fetch(model: ServedModel, key: str) -> CaptureResult:
    """Fetch the result of a finished request, which the workers then forget."""
    total: FloatArray | None = None
    next_token: int | None = None
    replay_s, agreed, rejected = 0.0, 0, False
    for answer in model.ask_workers("alignatt_fetch", key):
        if answer is None:
            raise EngineError(
                f"{model.name}: a worker does not know the request whose rows were asked for"
            )
        shape, data, token, seconds, verified, closed = answer
        next_token = token if next_token is None else next_token
        replay_s = max(replay_s, seconds)  # ranks compute side by side
        agreed, rejected = max(agreed, verified), rejected or closed
        if not shape:
            continue
        part = np.frombuffer(data, np.float32).reshape(shape)
        if total is not None and part.shape != total.shape:
            raise EngineError(
                f"{model.name}: workers captured rows of shapes {total.shape} and {part.shape}"
            )
        total = part if total is None else total + part
    return CaptureResult(total, next_token, replay_s, agreed, rejected)
