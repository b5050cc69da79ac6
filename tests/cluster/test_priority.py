"""Engines that start do not slow down running engines."""

import os
import subprocess
import sys

import psutil
import pytest

from alignatt_agent.cluster.priority import LAST, lowest_priority


def priorities(pid):
    threads = psutil.Process(pid).threads()
    return {os.getpriority(os.PRIO_PROCESS, thread.id) for thread in threads}


def may_take_it_back():
    code = "import os; p = os.nice(1); os.setpriority(os.PRIO_PROCESS, 0, p - 1)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_take_it_back(), reason="needs CAP_SYS_NICE")
def test_engines_give_way_while_they_start():
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    code = (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print(flush=True)\n"
        "time.sleep(60)"
    )
    try:
        with lowest_priority():
            engine = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            engine.stdout.readline()
            assert priorities(engine.pid) == {LAST}
        assert priorities(engine.pid) == priorities(os.getpid()) == {usual}
    finally:
        engine.kill()
        engine.communicate()


def test_engines_do_not_give_way_for_ever(monkeypatch):
    asked = []

    def refuse(which, who, priority):
        asked.append(priority)
        if priority < asked[0]:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "setpriority", refuse)
    with lowest_priority():
        assert asked == [1, 0]
    assert asked == [1, 0]
