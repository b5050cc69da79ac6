"""Choose the head set of a configuration for a direction."""

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.head_sets import ANY, HeadSet, HeadSetError, load_head_set
from alignatt_agent.config.languages import Language
from alignatt_agent.policy import POLICIES


def head_set_for(config: AgentConfig, source: Language, target: str) -> HeadSet:
    """Load the head set for a target code or for ``ANY``; its model may be missing."""
    name = config.head_sets.get(target, config.head_sets.get(ANY))
    return fitting_head_set(config, load_head_set(name) if name else None, source, target)


def fitting_head_set(
    config: AgentConfig, head_set: HeadSet | None, source: Language, target: str
) -> HeadSet:
    """Return a head set if it fits the model and a direction; reject ``None`` and other sets."""
    direction = f"{source.code}-{target}"
    # Without a head set, only policies that do not read attention can run.
    if head_set is None:
        configured = ", ".join(config.head_sets) or "none"
        without = sorted(name for name, policy in POLICIES.items() if policy.reads == "tokens")
        raise HeadSetError(
            f"no head set for {direction}; the configuration contains head_sets for "
            f"{configured}: add one, or set policy.name to one of {', '.join(without)}"
        )
    model = config.models.translation
    head_set.check(model.path, None, None, direction, model.revision)
    head_set.top(config.policy_for(target).top_k)  # rejects a set with fewer heads
    return head_set
