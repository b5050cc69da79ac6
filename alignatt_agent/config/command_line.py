"""Shared parts of command-line parsers: help texts from docstrings, and common options."""

from argparse import RawDescriptionHelpFormatter
from inspect import cleandoc
from pathlib import Path
from typing import Any

from alignatt_agent.config.resources import known_resources

CONFIG_HELP = (
    f"name ({', '.join(known_resources('agent_configs', '.yaml'))}) or path of a YAML configuration"
)

_SHARED: dict[str, dict[str, Any]] = {
    "config": {"metavar": "CONFIG", "help": CONFIG_HELP},
    "set": {
        "action": "append",
        "default": [],
        "metavar": "KEY=VALUE",
        "dest": "overrides",
        "help": "override a configuration key, e.g. policy.name=none; repeatable",
    },
    "source": {"metavar": "CODE", "help": "spoken language; default: from the configuration"},
    "target": {"nargs": "+", "metavar": "CODE", "help": "target languages (codes or names)"},
    "devset": {
        "type": Path,
        "metavar": "DIR",
        "help": "dev set, in the layout that simulstream-eval --help describes",
    },
    "output": {"type": Path, "metavar": "OUT", "help": "output folder"},
}


def page(docstring: str | None) -> dict[str, Any]:
    """Return parser arguments that show a docstring; its first paragraph precedes the options."""
    summary, _, rest = cleandoc(docstring or "").partition("\n\n")
    return {"description": summary, "epilog": rest, "formatter_class": RawDescriptionHelpFormatter}


def shared_options(parser: Any, *names: str, **changes: dict[str, Any]) -> None:
    """Add shared options to a parser: ``names`` unchanged, ``changes`` with new arguments.

    Options: config, set, source, target, devset, output. Example: ``target={"nargs": 1}``.
    """
    for name, defaults in _SHARED.items():
        if name in names or name in changes:
            settings = defaults | changes.get(name, {})
            parser.add_argument(f"--{name}", **settings)
