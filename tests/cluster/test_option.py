"""Without ``--ray`` Ray is not imported; a missing cluster is an error of one line."""

import subprocess
import sys

import pytest

from alignatt_agent.cluster import connection
from tests.fakes import agent as fakes

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise AssertionError(f"{name} is imported")
sys.meta_path.insert(0, Blocker())
from alignatt_agent import cli
from alignatt_agent.serve import cli as _, server as _
from lab.curves import __main__ as _
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
    ],
)
def test_a_cluster_that_is_not_there(call, address, told):
    status, _, errors = call("--ray", address)
    assert status == 2
    assert errors.startswith("simulstream-eval: ")
    assert told in errors
    assert errors.count("\n") == 1
    assert not list(call.root.glob("out/*/run.json"))
