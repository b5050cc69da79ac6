"""Ray: two nodes in processes, fake engines; one cluster for all tests."""

import json
import multiprocessing
import os
import re
import socket
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL

import httpx
import psutil
import pytest

from alignatt_agent.cluster.connection import ClusterError, ClusterOptions, check_nodes, joined
from alignatt_agent.cluster.jobs import Job
from alignatt_agent.machine.packages import versions
from alignatt_agent.serve.access import Limits
from lab.curves.cached_agent import CachedAgent
from lab.curves.runs import stream
from lab.local_jobs import job_runner
from lab.tests import clusters, test_curves_runs
from tests.fakes import agent as fakes
from tests.fixtures.agents import Call
from tests.serve import live


@pytest.fixture(scope="module")
def cluster():
    # Not importorskip: Ray reads its environment when it is imported.
    if find_spec("ray") is None:
        pytest.skip("the extra alignatt_agent[ray] is not installed")
    with clusters.two_nodes() as found:
        yield found


WORDS = 30
LONG = live.pcm(fakes.talk(WORDS))
PAUSE_S = 1.0
"""Delay between half seconds; a speaker that is silent for 10 s is replaced."""


@pytest.fixture(scope="class")
def _joined(cluster):
    with joined(cluster.address):
        yield


@pytest.mark.usefixtures("_joined")
class TestJoined:
    """Checks that need no separate command, since joining takes seconds."""

    def test_speakers_on_replicas(self, cluster, tmp_path):
        """Talks go to replicas with capacity; a lost replica costs a message but no text."""
        resolved = live.resolved(tmp_path)
        from alignatt_agent.serve.on_ray import deployed
        from alignatt_agent.serve.replicas import Scale

        scale = Scale(2, 3, 2, {"num_cpus": 0.1, "num_gpus": 0}, shrink_s=1.0)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with deployed(resolved, Limits(), scale, "127.0.0.1", port, live.FakePool):
            _speak(port, cluster)
        live.wait_until(lambda: not [t for t in clusters.workers(cluster).values() if "Serve" in t])
        with pytest.raises(httpx.ConnectError):
            live.get(port, "/health")

    def test_other_versions_are_named(self):
        with pytest.raises(ClusterError) as error:
            check_nodes({**versions(), "vllm": "0.1 (vllm)"})
        assert re.match(r"node \S+ runs vllm 0\.", str(error.value))
        assert "(here 0.1 (vllm)): results would not be comparable" in str(error.value)


def _speak(port, cluster):
    four = [clusters.Speaker(port, LONG, room=f"long{k}", pause=PAUSE_S) for k in range(4)]
    for speaker in four:
        speaker.wait("ready")
    assert sorted(clusters.replicas(port)["talks"].values()) == [2, 2]
    six = four + [clusters.Speaker(port, LONG, room=f"long{k}", pause=PAUSE_S) for k in (4, 5)]
    for speaker in six:
        speaker.wait("said")
    found = clusters.replicas(port)
    assert sorted(found["talks"].values()) == [2, 2, 2]  # it grew
    live.wait_until(lambda: clusters.replicas(port)["running"] == 3)
    seventh = clusters.Speaker(port, LONG)
    error = seventh.wait("error", 2)
    assert (error["code"], error["final"]) == ("busy", True)
    assert error["message"] == "limit of 6 speakers reached: try again later"

    name = "ray::ServeReplica:alignatt:engines"
    three = [pid for pid, title in clusters.workers(cluster).items() if name in title]
    assert {psutil.Process(pid).nice() for pid in three} == {os.nice(0)}
    os.kill(three[0], SIGKILL)
    live.wait_until(lambda: sum(bool(one.of("error")) for one in six) == 2, 3)
    told = [one for one in six if one.of("error")]
    for speaker in told:
        speaker.join(live.WAIT_S)
        (error,) = speaker.of("error")
        assert (error["code"], error["final"], speaker.closed) == ("engine", True, 1013)
        begun = speaker.text()
        ready = speaker.of("ready")[0]
        other = clusters.Speaker(port, live.TALK, session=ready["session"], pause=0.01)
        again = other.wait("ready")
        assert (again["resumed"], again["room"]) == (True, ready["room"])
        other.finish()
        path = f"/transcript?room={ready['room']}&target=de&format=txt"
        assert live.get(port, path)[::2] == (200, f"{begun} […] {other.text()}\n")
    for speaker in set(six) - set(told):
        assert speaker.finish().text() == live.german(WORDS)
        assert not speaker.of("error")
    figures = live.get(port, "/metrics")[2]
    assert 'alignatt_refusals_total{reason="busy"} 1.0' in figures
    assert "alignatt_engine_restarts_total 1.0" in figures
    live.wait_until(lambda: clusters.replicas(port)["running"] == 2)  # and shrank again


def lines(path):
    """Return a log without its measured times."""
    measured = ("computation_time", "model_loading_time", "seconds")
    return test_curves_runs.lines(path, measured)


def start_fakes(models, heads, recognizer):
    """Start fake engines, in a worker."""
    return test_curves_runs.engines()(models, heads, recognizer)


def test_a_sweep_is_that_of_one_machine(cluster, call):
    here, there = (test_curves_runs.runs_in(call.root, name, ["de"]) for name in ("here", "there"))
    test_curves_runs.stream_in(call.root, "here", here)
    workers = ClusterOptions(cluster.address, 0, 2)
    with job_runner(workers, 2, CachedAgent.shutdown) as runner:
        stream(runner, there, start_fakes, None)
        ((_, semaphore),) = runner.results([Job("kill", _killed_child, ())])
        assert semaphore.exists()
    assert not semaphore.exists()
    for one, two in zip(here, there, strict=True):
        assert lines(one.files.metrics) == lines(two.files.metrics)
        assert two.streamed
        assert not two.files.records.exists()


def _killed_child():
    """Start a process as engines are started, and kill it; returns its semaphore."""
    spawn = multiprocessing.get_context("spawn")
    told, tell = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_lock, args=(tell,))
    child.start()
    name = told.recv()
    child.kill()
    child.join()
    return Path("/dev/shm") / f"sem.{name.lstrip('/')}"


def _lock(tell):
    lock = multiprocessing.get_context("spawn").Lock()
    tell.send(lock._semlock.name)
    time.sleep(live.WAIT_S)


def test_a_run_outlives_a_node(cluster, tmp_path):
    """Logs and scores equal those of a local run after a loss; finished talks stay."""
    call = Call(tmp_path)
    call.devset = fakes.write_devset(tmp_path / "four", (13, 8, 11, 9))
    targets = ("de", "zh")
    options = {"configs": ("low",), "targets": targets}
    assert call(**options, out="here")[0] == 0
    ended = []
    arguments = ("--agent", "lab.tests.clusters.SlowAgent", "--ray", cluster.address)
    thread = threading.Thread(target=lambda: ended.append(call(*arguments, **options, out="there")))
    thread.start()
    parts = tmp_path / "there" / "de" / "talks.jsonl"
    live.wait_until(lambda: parts.is_file() or not thread.is_alive(), 60)
    cluster.remove_node(cluster.other, allow_graceful=False)
    thread.join(120)
    ((status, _, errors),) = ended
    assert status == 0, errors
    assert "worker lost; the job is restarted" in errors
    for target in targets:
        here, there = (tmp_path / where / target for where in ("here", "there"))
        for name in ("metrics.jsonl", "steps.jsonl"):
            assert lines(here / name) == lines(there / name)
        one, two = (json.loads((where / "scores.json").read_text()) for where in (here, there))
        for score in ("bleu", "chrf", "longyaal_cu_ms"):
            assert one[score] == two[score]
        devices = two["signature"].pop("devices")
        assert list(devices) == ["talk0", "talk1", "talk2", "talk3"]
        assert not (there / "talks.jsonl").exists()
