"""Ray on this machine: two nodes in processes, an agent that takes its time, and speakers."""

import contextlib
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.fakes import agent as fakes
from tests.serve import live


class SlowAgent(fakes.FakeAgent):
    """Takes long enough to be killed at work."""

    def process_chunk(self, waveform):
        time.sleep(0.15)
        return super().process_chunk(waveform)


@contextlib.contextmanager
def two_nodes():
    """Start a cluster of two nodes with a logical CPU each, on loopback."""
    from alignatt_agent.cluster.connection import ALONE
    from alignatt_agent.machine.environment import environment

    folder = tempfile.mkdtemp(prefix="ray-test-", dir="/tmp")  # paths of sockets have to be short
    with pytest.MonkeyPatch.context() as patch, environment(ALONE):
        patch.setenv("RAY_TMPDIR", folder)
        # Replicas start and stop by the reported number of talks: every ten seconds by default.
        patch.setenv("RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S", "1")
        (Path(folder) / "ray").mkdir()
        try:
            cluster = _started()
            try:
                yield cluster
            finally:
                cluster.shutdown()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _started(attempts=3):
    """Start the nodes; Ray gives each 30 s, which a busy machine may exceed."""
    from ray.cluster_utils import Cluster

    from alignatt_agent.cluster.connection import OBJECT_STORE

    node = {"object_store_memory": OBJECT_STORE, "num_gpus": 0, "num_cpus": 1}
    cluster = Cluster()
    try:
        cluster.add_node(**node, include_dashboard=False)
        cluster.other = cluster.add_node(**node)
    except BaseException as error:
        cluster.shutdown()
        if attempts > 1 and "timed out during startup" in str(error):
            return _started(attempts - 1)
        raise
    return cluster


class Speaker(threading.Thread):
    """Says a talk once, half a second at a time; it stops when told to.

    ``messages`` has the answers, each with its time of arrival.
    """

    def __init__(self, port, data, pause=0.1, **start):
        super().__init__(daemon=True)
        self._socket = connect(f"ws://127.0.0.1:{port}/ws", ping_timeout=None)
        self._data, self._pause = data, pause
        self._stopping = threading.Event()
        self.messages = []
        self.closed = None
        self._socket.send(json.dumps({"type": "start", "targets": ["de"], **start}))
        self.start()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._sender.start()

    def run(self):
        try:
            while True:
                message = json.loads(self._socket.recv())
                self.messages.append((time.monotonic(), message))
        except ConnectionClosed as error:
            self.closed = error.rcvd.code if error.rcvd else None

    def _send(self):
        with contextlib.suppress(ConnectionClosed):
            for piece in live.pieces(self._data, 16000):
                self._socket.send(piece)
                time.sleep(self._pause)
            self._stopping.wait()
            self._socket.send(json.dumps({"type": "stop"}))

    def finish(self):
        """Stop speaking when everything was said, and wait for the end."""
        self._stopping.set()
        self.join(live.WAIT_S)
        return self

    def of(self, kind):
        """Return the messages of a kind."""
        return [message for _, message in self.messages if message["type"] == kind]

    def wait(self, kind, seconds=60):
        """Wait for a message of a kind; returns it."""
        live.wait_until(lambda: self.of(kind), seconds, pause_s=0.02)
        return self.of(kind)[0]

    def text(self):
        return live.text_of(message for _, message in self.messages)


def replicas(port):
    return json.loads(live.get(port, "/health")[2])["replicas"]


def workers(cluster):
    """Processes that the nodes of a cluster have started, and their titles."""
    nodes = [cluster.head_node, *cluster.worker_nodes]
    raylets = [item.process.pid for node in nodes for item in node.all_processes["raylet"]]
    found = {}
    for raylet in raylets:
        for process in psutil.Process(raylet).children():
            with contextlib.suppress(psutil.Error):
                found[process.pid] = " ".join(process.cmdline()).strip()
    return found
