"""Every ``python -m lab.*`` runs its command line."""

import runpy
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parents[1]


FOLDERS = sorted(path.parent.name for path in LAB.glob("*/__main__.py"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_module_prints_its_help(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    for module in (f"lab.{name}", f"lab.{name}.__main__"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"lab.{name}", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")
