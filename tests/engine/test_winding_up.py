"""The end of the engines; the name makes this the last module that shares them."""

import multiprocessing

import numpy as np
import pytest

from alignatt_agent.types import EngineError


def test_shutdown_ends_every_process_and_closes_every_socket(engines, runtime, monkeypatch, caplog):
    dying = runtime.served["aligner"]._engine.engine_core
    resources = dying.resources
    # vLLM has detected a death, but not closed its sockets yet.
    dying._finalizer.detach()
    resources.engine_manager.shutdown()

    def fail(timeout):
        raise RuntimeError("no end")

    failing = runtime.served["asr"]
    monkeypatch.setattr(failing._engine, "shutdown", fail)
    runtime.close()
    runtime.close()
    for closed in (resources, failing._resources):
        assert closed.input_socket.closed
        assert closed.output_socket.closed
    assert "the engine is killed: RuntimeError: no end" in caplog.text
    assert not [p for p in multiprocessing.active_children() if "EngineCore" in p.name]
    with pytest.raises(EngineError, match="was shut down"):
        engines.asr.transcribe(np.zeros(16_000, np.float32), "en")
