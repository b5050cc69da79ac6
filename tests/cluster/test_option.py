"""What Ray changes: nothing without the option, one line where it is not there."""

import subprocess
import sys

import pytest

from alignatt_agent.cluster import connection
from tests.fakes import agent as fakes
from tests.serve import live

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise AssertionError(f"{name} is imported")
sys.meta_path.insert(0, Blocker())
from alignatt_agent import cli
from alignatt_agent.serve import engines
from lab.curves import __main__ as _
from tests.serve import live
engines.SharedEngines = live.FakePool
name, *arguments = sys.argv[1:]
sys.exit(cli.run(name, arguments))
"""


def test_without_the_option_ray_is_not_imported(call):
    talks = fakes.write_devset(call.root / "one", (8,))
    given = [
        *("--agent", "tests.fakes.agent.FakeAgent", "--config", call.root / "low.yaml"),
        *("--target", "de", "--devset", talks, "--output", call.root / "out"),
    ]
    command = [sys.executable, "-c", BLOCKED, "eval", *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (call.root / "out" / "de" / "scores.json").is_file()


def test_a_server_without_the_option_does_not_import_ray(tmp_path):
    given = ["--config", str(fakes.write_config(tmp_path)), "--port", "0"]
    command = [sys.executable, "-c", BLOCKED, "serve", *given]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            lines = iter(server.stdout.readline, "")
            address = next((line for line in lines if line.startswith("http")), "")
            assert address, server.stderr.read()
            port = int(address.split("/")[2].rpartition(":")[2])
            with live.RemoteSocket(port) as socket:
                live.start(socket)
                live.send(socket, stop=True)
                assert live.text_of(live.until(socket, "end")) == live.GERMAN
        finally:
            server.terminate()
        _, errors = server.communicate(timeout=live.WAIT_S)
    assert (server.returncode, errors) == (0, "")


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
