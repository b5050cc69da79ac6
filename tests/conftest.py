"""What all tests share: byte code, and which of them share a worker of pytest-xdist."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Images often forbid byte code; then each of the processes that tests start, engines among them,
# compiles vLLM, torch's friends and the scorers again: 8 s for an engine, 0.2 s for a score.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ENGINES = ("engine", "e2e")
"""Folders of the tests that start engines: one worker runs them all, memory holds one set."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep engines together, and what a module prepares once with its tests."""
    for item in items:
        path = Path(item.path)
        group = "engines" if path.parent.name in ENGINES else path.stem
        item.add_marker(pytest.mark.xdist_group(group))
