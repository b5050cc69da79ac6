"""The end of the engines; runs after the other engine tests, which share them."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

from alignatt_agent import cascade
from alignatt_agent.types import EngineError


def test_shutdown_ends_every_process(engines):
    cascade.shutdown()
    cascade.shutdown()
    assert not [p for p in multiprocessing.active_children() if "EngineCore" in p.name]
    with pytest.raises(EngineError, match="was shut down"):
        engines.asr.transcribe(np.zeros(16_000, np.float32), "en")
