"""Strict models, and what is said when a configuration is not valid."""

from __future__ import annotations

import difflib
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict

from alignatt_agent.types import AlignAttError


class ConfigError(AlignAttError, ValueError):
    """A configuration is not valid; the message says which key, what came and what is expected."""


class Strict(BaseModel):
    """A frozen part of the configuration that refuses unknown keys.

    Attributes:
        nothing_else: why there are no other keys, where users may expect some.
    """

    nothing_else: ClassVar[str] = ""
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def explain(model: type[BaseModel], error: dict[str, Any]) -> str:
    """Say what is wrong with one key, and name the nearest known one."""
    location = [str(part) for part in error["loc"]]
    dotted = ".".join(location)
    if not location:  # several keys together
        return str(error["msg"])
    if error["type"] != "extra_forbidden":
        return f"{dotted}: {error['msg']} (got {error['input']!r})"
    for part in location[:-1]:  # keys of mappings are no fields
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        for kind in (annotation, *get_args(annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                model = kind
    known = list(model.model_fields)
    reason = getattr(model, "nothing_else", "")
    near = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.0)
    return (
        f"{dotted}: unknown key; the nearest known one is {near[0]!r} "
        f"(known here: {', '.join(known)}{reason and f'; {reason}'})"
    )
