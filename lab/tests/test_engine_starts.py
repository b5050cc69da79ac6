"""Starts of engines that take too long for the tests of the product.

Two ranks take a minute to start, and add up their heads (`tests/engine/test_drafts.py`).
"""

import os
import signal

import psutil
import pytest

from alignatt_agent.types import EngineError
from alignatt_agent.types.engines import DraftRequest
from tests.engine.batches import cases, check_begins, check_rows, crowd, together
from tests.engine.test_fork_server import outcome
from tests.engine.workers import serving
from tests.fixtures.engines import make_prompt

OWNER = """
import sys, time

if __name__ == "__main__":
    from multiprocessing import forkserver
    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine.start import start_model
    model = ModelConfig(path=sys.argv[1], dtype="float32")
    engine = start_model("translation", model, [(0, 1)])
    print(forkserver._forkserver._forkserver_pid, *engine.pids, flush=True)
    time.sleep(120)
"""

# vLLM's platform for CUDA leaves the start method at "fork", the one for CPUs forces "spawn". A
# forked engine never runs our plug-in, and so outlives its owner.
FORKING = """
import os, sys, time

def leave_alone(cls, config):
    before = os.environ.get(METHOD)
    prepare(cls, config)
    os.environ.pop(METHOD)
    if before is not None:
        os.environ[METHOD] = before

if __name__ == "__main__":
    METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
    os.environ[METHOD] = "fork"
    from vllm.platforms.cpu import CpuPlatform
    prepare = CpuPlatform.check_and_update_config.__func__
    CpuPlatform.check_and_update_config = classmethod(leave_alone)
    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine import fork_server
    from alignatt_agent.engine.start import start_model
    fork_server.begin = fork_server.use = lambda: None
    model = ModelConfig(path=sys.argv[1], dtype="float32")
    print(os.getpid(), *start_model("translation", model, [(0, 1)]).pids, flush=True)
    time.sleep(120)
"""


def test_tensor_parallel_workers(models, reference):
    batch = [*cases(12), *crowd()]
    parallel = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    with serving(models, "Witness", **parallel) as (served, engine):
        drafts = together(engine, batch)
        ranks = served.ask_workers("witnessed")
        assert [report["ranks"] for report in ranks] == [2, 2]
        assert all(report["batch"] > 1 for report in ranks)
        for case, draft in zip(batch, drafts, strict=True):
            check_rows(reference, case, draft)
            # No rank has all heads, so a gate is left to the scan of the whole draft.
            request = DraftRequest(case.prompt, case.tokens, case.readout)
            check_begins(draft, reference.draft(request))
        assert served.ask_workers("alignatt_held") == [0, 0]

        # The engine ends with any of its workers.
        children = psutil.Process().children(recursive=True)
        workers = [process for process in children if "Worker" in process.name()]
        assert len(workers) == 2
        os.kill(workers[1].pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="the engine died: "):
            engine.draft(DraftRequest(make_prompt(1, 60, 5, 20), 400))
        assert not served.alive


@pytest.mark.parametrize("owner", [OWNER, FORKING], ids=["forked", "spawned"])
def test_an_engine_ends_with_its_owner_and_so_does_its_server(owner, checkpoints, tmp_path):
    assert not outcome(owner, tmp_path / "owner.py", "owner", str(checkpoints / "gemma4"))
