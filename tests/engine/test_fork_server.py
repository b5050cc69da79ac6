"""Forks of the server are what spawned children of their owner would be."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver

import psutil
import pytest

from alignatt_agent.engine import fork_server
from alignatt_agent.engine.options import engine_environment

OWNER = """
import sys, time

if __name__ == "__main__":
    from multiprocessing import forkserver
    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine import pool
    model = ModelConfig(path=sys.argv[1], dtype="float32")
    engine = pool.start("translation", model, [(0, 1)])
    print(forkserver._forkserver._forkserver_pid, *engine.pids, flush=True)
    time.sleep(120)
"""


def describe_me(path):
    me = psutil.Process()
    parent = multiprocessing.parent_process()
    about = {
        "environment": dict(os.environ),
        "niceness": me.nice(),
        "vllm": "vllm.v1.engine.core" in sys.modules,
        "asked by": parent.pid,
        "forked by": os.getppid(),
        "threads of that": me.parent().num_threads(),
    }
    path.write_text(json.dumps(about))


@pytest.fixture
def forked(tmp_path):
    """Return what a process says of itself that vLLM would start now."""
    with engine_environment():
        fork_server.use()
    from vllm.v1.engine import utils

    def begin(name):
        path = tmp_path / name
        process = utils.get_mp_context().Process(target=describe_me, args=(path,))
        process.start()
        process.join(60)
        assert process.exitcode == 0
        return json.loads(path.read_text())

    return begin


def test_a_fork_has_the_environment_of_its_owner_now(forked, monkeypatch):
    monkeypatch.setenv("ALIGNATT_TEST_ONE", "1")
    monkeypatch.setenv("ALIGNATT_TEST_TWO", "1")
    first = forked("first")
    monkeypatch.setenv("ALIGNATT_TEST_ONE", "2")
    monkeypatch.delenv("ALIGNATT_TEST_TWO")
    second = forked("second")
    assert first["environment"]["ALIGNATT_TEST_ONE"] == "1"
    assert first["environment"]["ALIGNATT_TEST_TWO"] == "1"
    assert second["environment"] == dict(os.environ)
    assert first["asked by"] == second["asked by"] == os.getpid()


def test_the_server_has_imported_vllm_and_has_one_thread(forked):
    """A fork of several threads may wait for ever for a lock that one of the others held."""
    seen = forked("seen")
    assert seen["vllm"]
    assert seen["forked by"] == forkserver._forkserver._forkserver_pid
    assert seen["threads of that"] == 1


def test_a_fork_gives_way_as_what_starts_it_does(forked):
    def begin():
        os.setpriority(os.PRIO_PROCESS, 0, usual + 3)  # of this thread
        return forked("seen")

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(begin).result()["niceness"] == usual + 3


@pytest.mark.parametrize("killed", ["owner", "server"])
def test_an_engine_ends_with_its_owner_and_with_the_server(checkpoints, tmp_path, killed):
    """Whose server ended counts as dead, and nobody could end it any more."""
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen(
        [sys.executable, str(script), str(checkpoints / "gemma4")], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    server, engine = map(psutil.Process, map(int, owner.stdout.readline().split()))
    try:
        assert engine.ppid() == server.pid
        # Not waited for, an owner keeps its id.
        os.kill({"owner": owner, "server": server}[killed].pid, signal.SIGKILL)
        rest = [engine, *([server] if killed == "owner" else [])]
        _, alive = psutil.wait_procs(rest, timeout=45)
        assert not alive
    finally:
        for process in (engine, server):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        owner.kill()
        owner.wait()
        owner.stdout.close()
