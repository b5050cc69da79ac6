"""What the README tells people to type exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from alignatt_agent.evaluation.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line.strip().removeprefix("$ ")
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", README, flags=re.S)
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]


def test_readme_has_commands():
    assert any(command.startswith("make dev-low") for command in COMMANDS)


@pytest.mark.parametrize("command", [item for item in COMMANDS if item.startswith("make ")])
def test_make_targets_exist(command):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    words = [word for word in shlex.split(command, comments=True)[1:] if "=" not in word]
    assert words
    assert set(words) <= targets


@pytest.mark.parametrize("command", [item for item in COMMANDS if "simulstream-eval" in item])
def test_evaluation_commands_parse(command):
    words = shlex.split(command, comments=True)
    arguments = words[words.index(next(w for w in words if w.endswith("simulstream-eval"))) + 1 :]
    build_parser().parse_args(arguments)


def test_every_target_is_in_make_help():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, flags=re.M).group(1).split())
    documented = set(re.findall(r"^([a-z-]+):.*## ", makefile, flags=re.M))
    assert phony == documented


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_linked_files_exist(path):
    assert (ROOT / path).exists()
