"""What all tests share: byte code, and which of them share a worker of pytest-xdist."""

from __future__ import annotations

import os
import sys

import pytest
from xdist.scheduler import LoadScopeScheduling

# Images often forbid byte code; then each of the processes that tests start, engines among them,
# compiles vLLM, torch's friends and the scorers again: 8 s for an engine, 0.2 s for a score.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ENGINES = ("tests/engine", "tests/e2e")
"""Folders whose tests share engines: each is the work of one worker."""


class Rooms(LoadScopeScheduling):
    """Keeps engines on one worker, and what a module prepares once with its tests.

    The marker ``xdist_group`` does the same, but not with pytest 9.2 and pytest-xdist 3.8.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        folder = module.rpartition("/")[0]
        return folder if folder in ENGINES else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Rooms:
    """Schedule by room, whatever ``--dist`` says."""
    return Rooms(config, log)
