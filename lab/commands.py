"""Helpers of the lab commands: parsers, JSON files that name the machine, tables."""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from alignatt_agent.config.command_line import page
from alignatt_agent.machine.device import device
from alignatt_agent.machine.packages import versions


def parser(module: str, docstring: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m MODULE``; its help is the docstring."""
    return argparse.ArgumentParser(f"python -m {module}", **page(docstring))


def machine() -> dict[str, Any]:
    """Return the description of the machine for files of figures."""
    return {"device": device(), "versions": versions()}


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file into a folder that may not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def table(rows: Iterable[Sequence[Any]], headers: Sequence[str] = ()) -> str:
    """Format rows of texts for a terminal."""
    return str(tabulate(rows, headers, "plain", disable_numparse=True))
