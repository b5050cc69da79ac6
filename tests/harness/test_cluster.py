"""Ray: two nodes in processes, fake engines; one cluster for all tests."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL

import pytest

from alignatt_agent.cluster import connection
from alignatt_agent.cluster.connection import ClusterError, Wish, check_nodes, joined
from alignatt_agent.config.machine import versions
from alignatt_agent.serve.access import Limits
from tests.harness import clusters, fakes, live, test_curves_runs
from tests.harness.conftest import Call


@pytest.fixture(scope="module")
def cluster():
    # Not importorskip: Ray reads its environment when it is imported.
    if find_spec("ray") is None:
        pytest.skip("the extra alignatt_agent[ray] is not installed")
    with clusters.two_nodes() as found:
        yield found


LONG = live.pcm(fakes.talk(60))


def test_speakers_on_replicas(cluster, tmp_path):
    """Talks go where there is room; a lost replica costs a message, and nothing that was said."""
    resolved = live.resolved(tmp_path)
    with joined(cluster.address):
        from alignatt_agent.serve.on_ray import deployed
        from alignatt_agent.serve.replicas import Scale

        scale = Scale(2, 2, 3, {"num_cpus": 0.1, "num_gpus": 0})
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with deployed(resolved, Limits(), scale, "127.0.0.1", port, live.FakeLoader):
            _speak(port, cluster)
    live.wait_until(lambda: not [t for t in clusters.workers(cluster).values() if "Serve" in t])
    with pytest.raises(ConnectionRefusedError):
        clusters.answer(port, "/health")


def _speak(port, cluster):
    six = [clusters.Speaker(port, LONG, room=f"long{k}") for k in range(6)]
    for speaker in six:
        speaker.wait("ready")
    seventh = clusters.Speaker(port, LONG)
    error = seventh.wait("error", 2)
    assert (error["code"], error["final"]) == ("busy", True)
    assert error["message"] == "6 speakers are being translated: try again later"
    talks = clusters.replicas(port)["talks"]
    assert sorted(talks.values()) == [3, 3]

    for speaker in six:
        speaker.wait("said")
    name = "ray::ServeReplica:alignatt:engines"
    os.kill(next(pid for pid, title in clusters.workers(cluster).items() if name in title), SIGKILL)
    until = time.monotonic() + 3
    while len(told := [one for one in six if one.of("error")]) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(told) == 3
    for speaker in told:
        speaker.join(live.WAIT_S)
        (error,) = speaker.of("error")
        assert (error["code"], error["final"], speaker.closed) == ("engine", True, 1013)
        begun = speaker.text()
        ready = speaker.of("ready")[0]
        other = clusters.Speaker(port, live.TALK, session=ready["session"])
        again = other.wait("ready")
        assert (again["resumed"], again["room"]) == (True, ready["room"])
        other.finish()
        transcript = clusters.answer(port, f"/transcript?room={ready['room']}&target=de&format=txt")
        assert transcript == (200, f"{begun} {other.text()}\n")
    for speaker in set(six) - set(told):
        assert speaker.finish().text() == live.german(60)
        assert not speaker.of("error")
    figures = clusters.answer(port, "/metrics")[1]
    assert "alignatt_refusals_total 1.0" in figures
    assert "alignatt_engine_restarts_total 1.0" in figures
    live.wait_until(lambda: clusters.replicas(port)["running"] == 2)


def lines(path):
    """Return a log without what is measured."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in found:
        for key in ("computation_time", "model_loading_time", "seconds"):
            line.pop(key, None)
    return found


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise AssertionError(f"{name} is imported")
sys.meta_path.insert(0, Blocker())
from tests.harness import fakes
from alignatt_agent.serve import cli, server
from alignatt_agent.curves import cli
from alignatt_agent.calibration import cli
sys.exit(fakes.evaluate(sys.argv[1:]))
"""


def test_without_the_option_ray_is_not_imported(call):
    arguments = [
        "--agent",
        "tests.harness.fakes.FakeAgent",
        "--config",
        str(call.root / "low.yaml"),
    ]
    arguments += [
        "--target",
        "de",
        "--devset",
        str(call.devset),
        "--output",
        str(call.root / "out"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (call.root / "out" / "de" / "scores.json").is_file()


def test_without_ray_the_extra_is_named(call, monkeypatch):
    monkeypatch.setattr(connection.importlib.util, "find_spec", lambda name: None)
    status, _, errors = call("--ray")
    assert (status, errors) == (
        2,
        "simulstream-eval: --ray needs Ray: pip install 'alignatt_agent[ray]'\n",
    )


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (
            "127.0.0.1:9",
            "no Ray cluster at 127.0.0.1:9 ([Errno 111] Connection refused): start one",
        ),
        ("head", "--ray head: expected HOST:PORT, auto or local"),
        ("ray://head:10001", "Ray's client protocol is not supported"),
    ],
)
def test_a_cluster_that_is_not_there(call, address, told):
    status, _, errors = call("--ray", address)
    assert status == 2
    assert errors.startswith("simulstream-eval: ")
    assert told in errors
    assert errors.count("\n") == 1
    assert not list(call.root.glob("out/*/run.json"))


def test_other_versions_are_named(cluster):
    here = {**versions(), "vllm": "0.1 (vllm)"}
    with joined(cluster.address), pytest.raises(ClusterError) as error:
        check_nodes(here)
    assert re.match(r"node \S+ runs vllm 0\.", str(error.value))
    assert "(here 0.1 (vllm)): results would not be comparable" in str(error.value)


def start_fakes(models, heads):
    """Start fake engines, in a worker."""
    return test_curves_runs.engines()(models, heads)


def test_a_sweep_is_that_of_one_machine(cluster, tmp_path):
    world = test_curves_runs.make_world(tmp_path)
    here, there = (test_curves_runs.runs_in(world, name, ["de"]) for name in ("here", "there"))
    test_curves_runs.stream_in(world, "here", here)
    from alignatt_agent.curves.on_ray import OnRay

    with OnRay(Wish(cluster.address, 0.1, 0, 2), 2, start_fakes) as place:
        place.stream(there, tmp_path, "sweep")
        assert place.apply(_count, [1, 2]) == 2
        assert list(Path(tempfile.gettempdir()).glob("alignatt-memo-*"))
    assert not list(Path(tempfile.gettempdir()).glob("alignatt-memo-*"))
    for one, two in zip(here, there, strict=True):
        assert lines(one.files.metrics) == lines(two.files.metrics)
        assert two.streamed
        assert not two.files.records.exists()


def _count(start_engines, items):
    assert start_engines is start_fakes
    return len(items)


def test_a_run_outlives_a_node(cluster, tmp_path):
    """Logs and scores are those of a local run, whoever was lost; finished talks stay."""
    call = Call(tmp_path)
    call.devset = fakes.write_devset(tmp_path / "four", (13, 8, 11, 9))
    assert call("--jobs", "2", configs=("low",), out="here")[0] == 0
    ended = []
    arguments = ("--agent", "tests.harness.clusters.SlowAgent", "--ray", cluster.address)
    thread = threading.Thread(
        target=lambda: ended.append(call(*arguments, configs=("low",), out="there"))
    )
    thread.start()
    parts = tmp_path / "there" / "de" / "talks.jsonl"
    deadline = time.monotonic() + 60
    while not parts.is_file() and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.remove_node(cluster.others.pop(), allow_graceful=False)
    thread.join(120)
    ((status, _, errors),) = ended
    assert status == 0, errors
    assert "its worker was lost; it starts again" in errors
    for target in ("de", "zh"):
        here, there = (tmp_path / where / target for where in ("here", "there"))
        for name in ("metrics.jsonl", "steps.jsonl"):
            assert lines(here / name) == lines(there / name)
        one, two = (json.loads((where / "scores.json").read_text()) for where in (here, there))
        for score in ("bleu", "chrf", "longyaal_cu_ms"):
            assert one[score] == two[score]
        devices = two["signature"].pop("devices")
        assert list(devices) == ["talk0", "talk1", "talk2", "talk3"]
        assert not (there / "talks.jsonl").exists()
