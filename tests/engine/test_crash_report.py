"""An error inside an engine's process is reported to the owner of the engine."""

import logging
import multiprocessing
from types import SimpleNamespace

import pytest

from alignatt_agent.engine import crash_report, process_files
from alignatt_agent.engine.crash_report import CrashReport


@pytest.fixture
def report(monkeypatch, tmp_path):
    """Return the report of an engine ``e1``; this process acts as the engine's process."""
    monkeypatch.setattr(process_files, "folder", lambda: str(tmp_path))
    monkeypatch.setenv(process_files.FOLDER, str(tmp_path))
    process = SimpleNamespace(_kwargs={"vllm_config": SimpleNamespace(instance_id="e1")})
    monkeypatch.setattr(multiprocessing, "current_process", lambda: process)
    logger = logging.getLogger("vllm")
    before = list(logger.handlers)
    crash_report.listen()
    crash_report.listen()
    assert len(logger.handlers) == len(before) + 1
    yield CrashReport("e1")
    logger.handlers = before


def fail(message, cause=None):
    try:
        raise RuntimeError(message) from cause
    except RuntimeError:
        logging.getLogger("vllm.v1.engine.core").exception("EngineCore failed to start.")


def test_the_first_error_counts_until_it_is_cleared(report):
    assert report.first() is None
    fail("outer", ValueError("no room\nat all"))
    fail("a consequence")
    assert report.first() == "ValueError: no room\nat all"
    report.clear()
    report.clear()
    assert report.first() is None
    fail("later")
    assert report.first() == "RuntimeError: later"


def test_other_engines_and_plain_messages_are_left_out(report):
    logging.getLogger("vllm").error("no exception here")
    logging.getLogger("elsewhere").error("not vLLM")
    assert report.first() is None
    fail("ours")
    assert CrashReport("e2").first() is None


def test_a_process_that_serves_no_engine_leaves_nothing(monkeypatch):
    monkeypatch.delenv(process_files.FOLDER, raising=False)
    handlers = list(logging.getLogger("vllm").handlers)
    crash_report.listen()
    assert logging.getLogger("vllm").handlers == handlers


def test_how_a_process_ended():
    killed = "the process was killed by SIGKILL, possibly because memory was exhausted"
    assert crash_report.describe_exit(-9) == killed
    assert crash_report.describe_exit(-11) == "the process was killed by SIGSEGV"
    assert crash_report.describe_exit(1) == "the process exited with code 1"
