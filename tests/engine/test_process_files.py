"""The folder of a killed process is removed by the next process; no other folder is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from alignatt_agent.engine import process_files

ENDED = 2**22 + 1
"""No process has a higher id than 2**22."""


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """A folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(owner) -> Path:
    path = Path(tempfile.mkdtemp(prefix="alignatt-engines-"))
    (path / "owner.json").write_text(json.dumps(owner))
    (path / "a-socket").touch()
    return path


def test_only_folders_of_ended_owners_are_removed(disk):
    here, me = process_files._machine(), psutil.Process()
    kept = [
        left([here, me.pid, me.create_time()]),
        left(["another machine", ENDED, 1.0]),
        Path(tempfile.mkdtemp(prefix="alignatt-engines-")),  # still being created
    ]
    removed = [
        left([here, ENDED, 1.0]),
        left([here, me.pid, me.create_time() - 5]),  # another process has got the id
    ]
    process_files.remove_abandoned()
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in removed)


def test_a_folder_goes_with_its_process_unless_that_is_killed(disk):
    code = "from alignatt_agent.engine.process_files import *; print(folder(), flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(disk)}

    def begin() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return process, Path(process.stdout.readline().strip())

    killed, first = begin()
    assert first.is_dir()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert first.is_dir()
    ended, second = begin()
    assert not first.exists()
    assert second.is_dir()
    ended.communicate("\n")
    assert not second.exists()
