"""Define strict models, and error messages for invalid configurations."""

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from alignatt_agent.policy import POLICIES
from alignatt_agent.types import AlignAttError


class ConfigError(AlignAttError, ValueError):
    """A configuration is invalid; the message names the key, the value and the expected value."""


class Strict(BaseModel):
    """A frozen part of the configuration that rejects unknown keys."""

    # An infinite number, e.g. of seconds to wait, would mean that nothing is ever emitted.
    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


def explain_all(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Describe all errors that pydantic found in the input of ``model`` (see ``explain``)."""
    return [explain(model, dict(details)) for details in error.errors()]


def explain(model: type[BaseModel], error: dict[str, Any]) -> str:
    """Describe the error of one key; suggest the nearest known key if the key is unknown."""
    keys: list[str] = []
    owner = model  # contains the last key
    for part in map(str, error["loc"]):
        # The location of an error in a union also contains the name of the chosen member.
        if part in POLICIES and keys in ([], ["policy"]):
            model = owner = POLICIES[part]
            continue
        owner = model
        model = _model_of(model, part)
        keys.append(part)
    dotted = ".".join(keys)
    if error["type"] == "union_tag_invalid":
        # The tag of the union of policies is the key ``name``.
        tag_key = ".".join([*keys, "name"])
        context = error["ctx"]
        return f"{tag_key}: expected one of {context['expected_tags']}, got {context['tag']!r}"
    if not keys:  # the error concerns several keys
        return str(error["msg"])
    if error["type"] != "extra_forbidden":
        return f"{dotted}: {error['msg']} (got {error['input']!r})"
    fields = list(owner.model_fields)
    # With a cutoff of 0, there is always a match.
    nearest = difflib.get_close_matches(keys[-1], fields, n=1, cutoff=0.0)[0]
    return (
        f"{dotted}: unknown key; did you mean {nearest!r}? The known keys are {', '.join(fields)}"
    )


def _model_of(model: type[BaseModel], key: str) -> type[BaseModel]:
    """Return the model of a key's value; mapping keys are not fields, so ``model`` is kept."""
    if key not in model.model_fields:
        return model
    annotation = model.model_fields[key].annotation
    # The arguments contain the model of an optional key, or that of a mapping's values.
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return model
