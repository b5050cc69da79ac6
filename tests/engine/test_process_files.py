"""What killed processes leave is removed by the next one, and nothing else is."""

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
    """A machine's folder of temporary files, and that of its semaphores."""
    for name in ("tmp", "shm"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(process_files, "_SEMAPHORES", tmp_path / "shm")
    return tmp_path


def left(disk: Path, owner, *engines: int) -> Path:
    path = Path(tempfile.mkdtemp(prefix="alignatt-engines-"))
    (path / "owner.json").write_text(json.dumps(owner))
    for process in engines:
        (path / f"engine-{process}").touch()
        (disk / "shm" / f"sem.loky-{process}-abc").touch()
    return path


def test_what_a_killed_process_left_goes_with_its_semaphores(disk):
    gone = left(disk, [process_files._machine(), ENDED, 1.0], ENDED + 1, ENDED + 2)
    (gone / "a-socket").touch()
    (disk / "shm" / "sem.loky-4194309-of-another-program").touch()
    process_files.remove_abandoned()
    assert not gone.exists()
    assert [path.name for path in (disk / "shm").iterdir()] == [
        "sem.loky-4194309-of-another-program"
    ]


def test_what_may_be_in_use_stays(disk):
    here, me = process_files._machine(), psutil.Process()
    kept = [
        left(disk, [here, me.pid, me.create_time()]),
        left(disk, ["another machine", ENDED, 1.0]),
        left(disk, [here, ENDED, 1.0], me.pid),  # an engine that has not noticed yet
        Path(tempfile.mkdtemp(prefix="alignatt-engines-")),  # just being made
    ]
    another = left(disk, [here, me.pid, me.create_time() - 5])  # its id was given again
    mine = disk / "shm" / f"sem.loky-{me.pid}-mine"
    mine.touch()
    process_files.remove_abandoned()
    assert all(path.exists() for path in kept)
    assert not another.exists()
    assert mine.exists()


def test_a_folder_goes_with_its_process_unless_that_is_killed(disk):
    code = "from alignatt_agent.engine.process_files import *; print(folder(), flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(disk / "tmp")}

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


def test_an_engine_signs_the_folder_of_its_owner(monkeypatch, tmp_path):
    monkeypatch.setenv(process_files.FOLDER, str(tmp_path))
    process_files.sign(os.getpid())
    assert [path.name for path in tmp_path.iterdir()] == [f"engine-{os.getpid()}"]
    monkeypatch.setenv(process_files.FOLDER, str(tmp_path / "gone with its owner"))
    process_files.sign(os.getpid())
