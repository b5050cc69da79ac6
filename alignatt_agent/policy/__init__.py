"""List the acceptance policies: classes that decide how much of a draft is emitted."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator, Field, TypeAdapter

from alignatt_agent.policy.alignatt import AlignAtt as AlignAtt
from alignatt_agent.policy.alignatt_or_agreement import AlignAttOrAgreement as AlignAttOrAgreement
from alignatt_agent.policy.base import Policy as Policy
from alignatt_agent.policy.rivals import Confidence as Confidence
from alignatt_agent.policy.rivals import EmitAll as EmitAll
from alignatt_agent.policy.rivals import HoldN as HoldN
from alignatt_agent.policy.rivals import LocalAgreement as LocalAgreement
from alignatt_agent.policy.rivals import WaitK as WaitK

POLICIES: dict[str, type[Policy]] = {
    "alignatt": AlignAtt,
    "alignatt_or_agreement": AlignAttOrAgreement,
    "local_agreement": LocalAgreement,
    "hold_n": HoldN,
    "wait_k": WaitK,
    "confidence": Confidence,
    "none": EmitAll,
}
"""All policies by name."""

DEFAULT = AlignAtt()
"""The policy that is used if a configuration sets none."""

REASONS = dict(Policy.reasons)
"""Texts that explain every reason to viewers (see ``Policy``)."""

for _policy in POLICIES.values():
    REASONS.update(_policy.reasons)


def _named(raw: Any) -> Any:
    if isinstance(raw, Mapping):
        return {"name": DEFAULT.name, **raw}
    return raw


# A type checker cannot read a union that is built at run time.
if TYPE_CHECKING:
    AnyPolicy = Policy
else:
    AnyPolicy = Annotated[
        Union[tuple(POLICIES.values())],  # noqa: UP007 - the members are known only at run time
        Field(discriminator="name"),
        BeforeValidator(_named),
    ]

_ADAPTER: TypeAdapter[Policy] = TypeAdapter(AnyPolicy)


def changed(policy: Policy, keys: Mapping[str, Any]) -> Policy:
    """Return ``policy`` with some keys changed, or the policy that ``keys`` specifies.

    Raises:
        pydantic.ValidationError: a key or value is not valid for the policy.
    """
    # Validated as a new policy, because ``model_copy`` would accept any value.
    unchanged = kept_keys(policy.model_dump(), keys.get("name", policy.name))
    return _ADAPTER.validate_python({**unchanged, **keys})


def kept_keys(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the keys that the policy ``name`` keeps from another policy."""
    if _named(raw)["name"] == name:
        return dict(raw)
    # Keys of one policy mean something else in another: ``drafts`` is 1, 2 or 3 by default.
    return {key: value for key, value in raw.items() if key in Policy.model_fields}
