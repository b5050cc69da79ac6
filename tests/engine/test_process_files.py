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

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.engine import process_files
from alignatt_agent.fetch.hub import look_up
from alignatt_agent.types import EngineError

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


def test_caches_move_if_the_users_cache_is_not_writable(monkeypatch, caplog, tmp_path):
    monkeypatch.delenv("VLLM_CACHE_ROOT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    moved = process_files.cache_environment()
    assert all(path.startswith(process_files.folder()) for path in moved.values())
    assert moved.keys() == {"VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
    assert "/proc/nowhere/vllm is not writable (No such file or directory)" in caplog.text
    assert "set XDG_CACHE_HOME to a writable folder" in caplog.text
    assert len(caplog.records) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert process_files.cache_environment() == {}


def test_a_user_without_a_home_is_told(monkeypatch):
    def unknown(key):
        raise KeyError(key)

    for name in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match=r"~/\.cache cannot be found: HOME is not set, and user"):
        process_files.cache_environment()
    # The hub's client does not replace ~ either.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "~/.cache/huggingface/hub")
    model = ModelConfig(path="someone/translator")
    for find in (locate_one, look_up):
        with pytest.raises(ConfigError, match=r"huggingface/hub cannot be found: HOME is not set"):
            find(model)


def test_shared_memory_has_to_be_writable(monkeypatch):
    process_files.check_shared_memory()
    monkeypatch.setattr(process_files, "SHARED_MEMORY", "/proc/nowhere")
    with pytest.raises(EngineError, match=r"/proc/nowhere is not writable \(No such file"):
        process_files.check_shared_memory()
