"""What all tests share: byte code, and which of them share a worker of pytest-xdist."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

# Images often forbid byte code; then each of the processes that tests start, engines among them,
# compiles vLLM, torch's friends and the scorers again: 8 s for an engine, 0.2 s for a score.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


pytest_plugins = ("tests.fixtures.agents", "tests.fixtures.engines", "tests.fixtures.tokenizers")


class Rooms(LoadScopeScheduling):
    """Keeps on one worker what prepares something once: a module, or all that share engines.

    The marker ``xdist_group`` does the same, but not with pytest 9.2 and pytest-xdist 3.8.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        folder = module.rpartition("/")[0]
        if folder == "tests/e2e":
            return folder
        return "engines" if shares_engines(module) else module


@cache
def shares_engines(module: str) -> bool:
    """Whether a module asks for the fixture ``engines`` of ``tests/fixtures/engines.py``."""
    text = (Path(__file__).parent / module).read_text(encoding="utf-8")
    return re.search(r"def test_\w+\([^)]*\bengines\b", text) is not None


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Rooms:
    """Schedule by room, whatever ``--dist`` says."""
    return Rooms(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: the cascade, then what shares engines, then the rest."""

    def place(item: pytest.Item) -> int:
        module = item.nodeid.split("::")[0]
        return 0 if module.startswith("tests/e2e/") else 1 if shares_engines(module) else 2

    items.sort(key=place)
