"""From ``--agent``, ``--config`` and ``--set`` to Simulstream's YAML, and its signature."""

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.contexts import prompt_date
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config, read_yaml
from alignatt_agent.config.checkpoints import is_embedded
from alignatt_agent.config.languages import language
from alignatt_agent.config.machine import device, versions
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.score import scorer_settings

GROUP = "simulstream.agents"

MICRO_LABEL = "micro world: these scores only show that the pipeline works"


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """A speech processor class and its configuration: ours ``resolved``, a foreign one ``raw``."""

    cls: type[Any]
    name: str
    resolved: Resolved | None
    raw: Mapping[str, Any]

    @property
    def config(self) -> AgentConfig | None:
        """Our validated configuration; ``None`` for a foreign agent."""
        return self.resolved.config if self.resolved else None

    @property
    def micro(self) -> bool:
        """Whether any model is embedded."""
        return self.config is not None and is_embedded(self.config.models)

    def resolved_yaml(self, target: str) -> str:
        """Return the complete YAML of one target language."""
        if self.config is not None:
            return self.config.for_target(target).to_yaml()
        settings = {**scorer_settings(target), **self.raw}
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)

    def sign(self, devset: DevSet, target: str, latency: str) -> dict[str, Any]:
        """Return everything that a run's scores depend on, including the latency measure."""
        signature: dict[str, Any] = {
            "agent": f"{self.cls.__module__}.{self.cls.__qualname__}",
            "config": self.name,
            "target": target,
            "versions": versions(),
            "device": device(),
            "devset": devset.digest(target),
            "audio": devset.audio_digest(),
            "latency": latency,
        }
        if self.resolved is None:
            digest = hashlib.sha256(self.resolved_yaml(target).encode()).hexdigest()[:12]
            return {**signature, "config_sha256": digest}
        config, head_set = self.resolved.config, self.resolved.head_sets.get(target)
        signature |= {
            "direction": f"{config.source_language}-{target}",
            "config_sha256": config.digest(),
            "chunk_ms": config.chunk_ms,
            "models": self.resolved.identities(),
            "dtype": config.models.translation.dtype,
            "policy": config.policy_for(target).model_dump(),
        }
        if head_set is not None:
            provisional = " (provisional)" if head_set.provisional else ""
            signature["head_set"] = head_set.name + provisional
        if date := prompt_date(self.resolved, target):
            signature["prompt_date"] = date
        if self.micro:
            signature["label"] = MICRO_LABEL
        return signature


def choose_agent(
    agent: str,
    config: str | None,
    overrides: Mapping[str, Any],
    source: str | None = None,
    targets: Sequence[str] = (),
    contexts: Path | None = None,
    live: bool = True,
) -> AgentChoice:
    """Find an agent by entry point, dotted class or Simulstream YAML; resolve its configuration."""
    if agent.endswith((".yaml", ".yml")):
        if config is not None:
            raise ConfigError(f"--agent {agent} is already a configuration; omit --config")
        config, dotted = agent, str(read_yaml(agent).get("type", ""))
        if not dotted:
            raise ConfigError(f"{agent} has no key 'type' with the dotted path of the agent class")
    else:
        points = entry_points(group=GROUP, name=agent)
        dotted = next((point.value for point in points), agent)
    cls = _import_class(dotted, agent)
    if config is None:
        raise ConfigError("--config is missing: name a configuration or the path of a YAML file")
    if issubclass(cls, AlignAttAgent):
        keys = {"type": f"{cls.__module__}.{cls.__qualname__}", **overrides}
        ours = load_with_contexts(config, contexts, keys)
        if source is not None:
            ours = ours.model_copy(update={"source_language": language(source).code})
        return AgentChoice(cls, config, cls.runtime.resolve(ours, targets, live), {})
    if overrides:
        raise ConfigError(f"--set works only for our own agents, not for {dotted}; edit {config}")
    raw = {**read_yaml(config), "type": dotted.replace(":", ".")}
    return AgentChoice(cls, config, None, raw)


def load_with_contexts(
    config: str, contexts: Path | None, overrides: Mapping[str, Any] | None = None
) -> AgentConfig:
    """Load a configuration; without ``speech.context`` it gets the dev set's folder of contexts."""
    loaded = load_config(config, overrides)
    if loaded.speech.context is None and contexts is not None and contexts.is_dir():
        return load_config(config, {**(overrides or {}), "speech.context": str(contexts)})
    return loaded


def known_agents() -> list[str]:
    """Return the names in the entry-point group ``simulstream.agents``."""
    return sorted(point.name for point in entry_points(group=GROUP))


def _import_class(dotted: str, agent: str) -> type[Any]:
    module, _, name = dotted.replace(":", ".").rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None) if module else None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        found = None
    if isinstance(found, type):
        return found
    raise ConfigError(
        f"no agent {agent!r}: neither an entry point of {GROUP} ({', '.join(known_agents())}) "
        f"nor an importable class nor the path of a YAML file"
    )
