"""Import scripts of the checkout by their paths."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_script(path):
    """Import a script, with its neighbours in reach."""
    folder = str((ROOT / path).parent)
    sys.path.insert(0, folder)
    try:
        name = f"script_{Path(path).stem}"
        loader = SourceFileLoader(name, str(ROOT / path))
        module = module_from_spec(spec_from_loader(name, loader))
        sys.modules[name] = module  # dataclasses look there
        loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module
