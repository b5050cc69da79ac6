"""Forks of the server behave like spawned children of their owner."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from alignatt_agent.engine import fork_server
from alignatt_agent.engine.environment import engine_environment

WATCHED = """
import time
from alignatt_agent.engine.fork_server import EngineProcess

def wait(ready):  # as vLLM does for its owner, before any plug-in
    ready.set()
    time.sleep(120)

if __name__ == "__main__":
    import multiprocessing
    from multiprocessing import forkserver
    ready = multiprocessing.get_context("forkserver").Event()
    child = EngineProcess(target=wait, args=(ready,))
    child.start()
    ready.wait()
    time.sleep(0.5)
    print(forkserver._forkserver._forkserver_pid, child.pid, flush=True)
    time.sleep(120)
"""

SPAWNED = """
import os, subprocess, sys, time
os.environ["ALIGNATT_ENGINE_OWNER"] = str(os.getpid())
child = (
    "import time; from alignatt_agent.engine import plugin;"
    "plugin.prepare = lambda: None; plugin.register();"  # without vLLM
    "print('ready', flush=True); time.sleep(60)"
)
engine = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
engine.stdout.readline()
print(os.getpid(), engine.pid, flush=True)
time.sleep(60)
"""


def describe_me(path):
    me = psutil.Process()
    about = {"environment": dict(os.environ), "niceness": me.nice(), "forked by": os.getppid()}
    about["asked by"] = multiprocessing.parent_process().pid
    about["vllm"] = {"vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"} <= sys.modules.keys()
    about["threads of that"] = me.parent().num_threads()
    path.write_text(json.dumps(about))


@pytest.fixture
def forked(tmp_path):
    """Return a function that starts a process as vLLM does, and returns its description."""
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
    assert first["vllm"]
    assert first["forked by"] == forkserver._forkserver._forkserver_pid
    # A fork of a process with several threads may wait forever for a lock of another thread.
    assert first["threads of that"] == 1


def test_a_fork_gives_way_as_what_starts_it_does(forked):
    def begin():
        os.setpriority(os.PRIO_PROCESS, 0, usual + 3)  # of this thread
        return forked("seen")

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(begin).result()["niceness"] == usual + 3


def test_threads_that_ask_at_once_learn_how_a_fork_ended(monkeypatch):
    read, both = forkserver.read_signed, threading.Barrier(2)

    def slowly(pipe):  # another thread has its turn, if it can
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return read(pipe)

    def code():
        process.join()
        return process.exitcode

    monkeypatch.setattr(forkserver, "read_signed", slowly)
    process = fork_server.EngineProcess(target=time.sleep, args=(60,))
    process.start()
    os.kill(process.pid, signal.SIGKILL)
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(code) for _ in range(2)]
    assert [future.result() for future in asked] == [-signal.SIGKILL] * 2


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def outcome(script: str, path: Path, killed: str, *arguments: str) -> list[psutil.Process]:
    """Run an owner that prints the ids of its server and engine; return those that outlive it."""
    path.write_text(script)
    command = [sys.executable, str(path), *arguments]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    server, engine = map(psutil.Process, map(int, owner.stdout.readline().split()))
    try:
        assert engine.ppid() == server.pid
        # An owner keeps its id until its parent waits for it.
        os.kill({"owner": owner, "server": server}[killed].pid, signal.SIGKILL)
        rest, deadline = [engine, server], time.monotonic() + 45
        while not all(map(ended, rest)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [process for process in rest if not ended(process)]
    finally:
        for process in (engine, server):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        owner.kill()
        owner.wait()
        owner.stdout.close()


@pytest.mark.parametrize(
    ("script", "killed"), [(WATCHED, "owner"), (WATCHED, "server"), (SPAWNED, "owner")]
)
def test_what_watches_its_owner_ends_with_it_and_with_the_server(tmp_path, script, killed):
    """An engine whose server ended counts as dead, and its owner could not end it any more."""
    assert not outcome(script, tmp_path / "watched.py", killed)
