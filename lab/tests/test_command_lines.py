"""Every ``python -m lab.*`` runs its command line."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(path.parent.name for path in LAB.glob("*/__main__.py")))
def test_a_module_prints_its_help(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.delitem(sys.modules, f"lab.{name}.__main__", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"lab.{name}", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")
