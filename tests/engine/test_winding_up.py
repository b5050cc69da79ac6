"""The end of the engines; by its name the last of the modules that share them."""

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
