"""Define strict models, and error messages for invalid configurations."""

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from alignatt_agent.policy import POLICIES
from alignatt_agent.types import AlignAttError


class ConfigError(AlignAttError, ValueError):
    """A configuration is invalid; the message names the key, the value and the expected value."""


class Strict(BaseModel):
    """A frozen part of the configuration that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def explain(model: type[BaseModel], error: dict[str, Any]) -> str:
    """Describe the error of one key; suggest the nearest known key if the key is unknown."""
    keys: list[str] = []
    owner = model  # contains the last key
    for part in map(str, error["loc"]):
        if part in POLICIES and keys in ([], ["policy"]):  # pydantic adds the union member's name
            model = owner = POLICIES[part]
            continue
        owner, model = model, _model_of(model, part)
        keys.append(part)
    dotted = ".".join(keys)
    if error["type"] == "union_tag_invalid":
        expected, tag = error["ctx"]["expected_tags"], error["ctx"]["tag"]
        return f"{'.'.join([*keys, 'name'])}: expected one of {expected}, got {tag!r}"
    if not keys:  # the error concerns several keys
        return str(error["msg"])
    if error["type"] != "extra_forbidden":
        return f"{dotted}: {error['msg']} (got {error['input']!r})"
    known = list(owner.model_fields)
    near = difflib.get_close_matches(keys[-1], known, n=1, cutoff=0.0)
    return f"{dotted}: unknown key; did you mean {near[0]!r}? The known keys are {', '.join(known)}"


def _model_of(model: type[BaseModel], key: str) -> type[BaseModel]:
    """Return the model of a key's value; mapping keys are not fields, so ``model`` is kept."""
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return model
