"""Find the agent and the configuration that ``--agent``, ``--config`` and ``--set`` specify."""

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.checkpoints import is_embedded
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import int8_exactness
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.machine.device import device
from alignatt_agent.machine.packages import versions

GROUP = "simulstream.agents"

MICRO_LABEL = "embedded models: these scores only show that the pipeline works"


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent class and its resolved configuration; ``name`` is the value of ``--config``."""

    cls: type[AlignAttAgent]
    name: str
    resolved: Resolved

    @property
    def config(self) -> AgentConfig:
        """The validated configuration."""
        return self.resolved.config

    @property
    def micro(self) -> bool:
        """Whether any model is embedded."""
        return is_embedded(self.config.models)

    def sign(self, devset: DevSet, target: str, latency: str) -> dict[str, Any]:
        """Return all settings that a run's scores depend on, including the latency measure."""
        config = self.config
        head_set = self.resolved.head_sets.get(target)
        signature: dict[str, Any] = {
            "agent": f"{self.cls.__module__}.{self.cls.__qualname__}",
            "config": self.name,
            "target": target,
            "versions": versions(),
            "device": device(),
            "devset": devset.digest(target),
            "audio": devset.audio_digest(),
            "latency": latency,
            "direction": f"{config.source_language}-{target}",
            "config_sha256": config.digest(),
            "chunk_ms": config.chunk_ms,
            "models": self.resolved.identities(),
            "dtype": config.models.translation.dtype,
            "policy": config.policy_for(target).model_dump(),
        }
        # The kernel depends on the processor, and its rounding can change the output.
        if config.models.translation.quantize is not None:
            signature["kernel"] = int8_exactness.description()
        if head_set is not None:
            provisional = " (provisional)" if head_set.provisional else ""
            signature["head_set"] = head_set.name + provisional
        if self.micro:
            signature["label"] = MICRO_LABEL
        return signature


def choose_agent(
    agent: str,
    config: str,
    overrides: Mapping[str, Any],
    source: str | None = None,
    targets: Sequence[str] = (),
    contexts: Path | None = None,
    live: bool = True,
) -> AgentChoice:
    """Find an agent by entry point or dotted class name, and resolve its configuration.

    Raises:
        ConfigError: the agent does not exist, or the configuration is invalid.
    """
    cls = _agent_class(agent)
    keys = {"type": f"{cls.__module__}.{cls.__qualname__}", **overrides}
    if source is not None:
        keys["source_language"] = language(source).code
    loaded = load_with_contexts(config, contexts, keys)
    return AgentChoice(cls, config, cls.runtime.resolve(loaded, targets, live))


def load_with_contexts(
    config: str, contexts: Path | None, overrides: Mapping[str, Any] | None = None
) -> AgentConfig:
    """Load a configuration; if it sets no context, use the folder ``contexts`` of the dev set."""
    loaded = load_config(config, overrides)
    if loaded.speech.context is not None or contexts is None or not contexts.is_dir():
        return loaded
    # Loaded again: whether a configuration sets a context is known only after loading.
    keys = dict(overrides or {})
    keys["speech.context"] = str(contexts)
    return load_config(config, keys)


def known_agents() -> list[str]:
    """Return the names in the entry-point group ``simulstream.agents``."""
    return sorted(point.name for point in entry_points(group=GROUP))


def _agent_class(name: str) -> type[AlignAttAgent]:
    dotted_name = next((point.value for point in entry_points(group=GROUP, name=name)), name)
    try:
        target = pkgutil.resolve_name(dotted_name)
    except (AttributeError, ImportError, ValueError) as error:
        target = error  # part of the message below
    if isinstance(target, type) and issubclass(target, AlignAttAgent):
        return target
    raise ConfigError(
        f"--agent {name}: found {target!r}; expected an entry point in {GROUP} "
        f"({', '.join(known_agents())}) or the dotted name of a subclass of AlignAttAgent"
    )
