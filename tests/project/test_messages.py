"""Every key, option and command that a message of the product names exists."""

import ast
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

import alignatt_agent
from alignatt_agent.cli import COMMANDS
from alignatt_agent.config.agent_config import AgentConfig

PACKAGE = Path(alignatt_agent.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
FOREIGN = {
    "nvidia-smi": "--query-gpu --format",
    "hf": "--revision",
    "docker": "--gpus --build-arg",
    "ray": "--head",
    "arecord, parec": "--format --channels --rate --latency-msec --raw",
    "simulstream": "--speech-processor-config --wav-list-file --tgt-lang --src-lang "
    "--metrics-log-file --eval-config --log-file --reference --audio-definition --latency-unit "
    "--scorer --server-config",
    "omnisteval": "--lang --word_level --char_level --simulstream_config_file "
    "--speech_segmentation --ref_sentences_file --hypothesis_file --hypothesis_format "
    "--bleu_tokenizer --output_folder",
}
"""Options of other programs that messages name or the product calls."""

ANY = "{}"
"""Stands for a part of a text that is filled in."""

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
ADVICE = re.compile(r"\b(?:set|raise|lower|correct) ((?:[\w{}*]+\.)*[a-z]\w*_\w+)")


def parsers(name: str) -> Iterator[ArgumentParser]:
    """The parser of a command and those of its sub-commands."""
    waiting = [import_module(f"alignatt_agent.{COMMANDS[name][0]}").build_parser()]
    while waiting:
        parser = waiting.pop()
        yield parser
        for action in parser._actions:
            waiting += action.choices.values() if isinstance(action.choices, dict) else ()


def options(name: str) -> set[str]:
    """Options that a command takes."""
    return {
        option
        for parser in parsers(name)
        for action in parser._actions
        for option in action.option_strings
    }


OPTIONS = {name: options(name) for name in COMMANDS}


def strings_of(code: str) -> Iterator[tuple[int, str]]:
    """Every string but docstrings, with its line; ``ANY`` where filled."""
    tree = ast.parse(code)
    strings = (ast.Constant, ast.JoinedStr)
    skipped = set()  # parents come first
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        if isinstance(node, strings) and id(node) not in skipped:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            values = [part.value if isinstance(part, ast.Constant) else ANY for part in parts]
            yield node.lineno, "".join(value for value in values if isinstance(value, str))


def keys(kind: Any) -> Iterator[tuple[str, ...]]:
    """The keys below an annotation, with their paths; ``*`` is any key."""
    fields: dict[str, Any] = {}
    if get_origin(kind) is dict:
        fields = {"*": get_args(kind)[1]}
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {name: field.annotation for name, field in kind.model_fields.items()}
    for name, inside in fields.items():
        yield from ((name, *rest) for rest in [(), *keys(inside)])
    for item in () if fields else get_args(kind):  # of a union
        yield from keys(item)


KEYS = {*keys(AgentConfig)}


def exists(key: str) -> bool:
    """Whether a dotted key exists; a part with ``ANY`` or ``*`` is any key."""
    parts = key.split(".")
    return any(
        len(known) == len(parts)
        and all(a == b or "*" in (a, b) or ANY in b for a, b in zip(known, parts, strict=True))
        for known in KEYS
    )


KEY = re.compile(
    rf"(?<![\w.]/)(?<![\w.])(?:{'|'.join(AgentConfig.model_fields)})\.[\w{{}}*.]*[\w}}]"
)


def wrong_keys(text: str) -> list[str]:
    """Keys of the configuration that a text names and that do not exist."""
    named = dict.fromkeys([*KEY.findall(text), *ADVICE.findall(text)])
    return [key for key in named if not exists(key)]


def wrong_options(text: str) -> list[str]:
    """Options in a text that exist neither here nor in a program that we call."""
    known = {"--version"}.union(*OPTIONS.values(), *(line.split() for line in FOREIGN.values()))
    return [option for option in OPTION.findall(text) if option not in known]


def wrong_commands(text: str) -> Iterator[str]:
    """Our commands in backticks, or options of them, that do not exist."""
    for line in re.findall(r"`((?:alignatt|simulstream-eval)(?: [^`]*)?)`", text):
        program, *words = shlex.split(line.replace("...", ""))
        name = "eval" if program == "simulstream-eval" else next(iter(words), "doctor")
        if name == "COMMAND" or ANY in name:
            continue
        if name not in COMMANDS or not set(OPTION.findall(line)) <= OPTIONS[name]:
            yield line


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_messages_name_what_exists(path):
    wrong = [
        f"{line}: {item}"
        for line, text in strings_of(path.read_text(encoding="utf-8"))
        for item in (*wrong_keys(text), *wrong_options(text), *wrong_commands(text))
    ]
    assert not wrong, wrong


def test_what_does_not_exist_is_found():
    assert wrong_keys("set policy.early_stop to false") == ["policy.early_stop"]
    assert wrong_keys("lower models.*.engine.{} and set models.{}.revision to {}") == []
    assert wrong_keys("targets.de.polcy") == ["targets.de.polcy"]
    assert wrong_options("name --config or --confg") == ["--confg"]
    assert [*wrong_commands("run `alignatt doctr` or `alignatt doctor --gpus`")] == [
        "alignatt doctr",
        "alignatt doctor --gpus",
    ]
