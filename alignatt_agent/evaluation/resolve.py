"""From ``--agent``, ``--config`` and ``--set`` to the YAML that Simulstream runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import yaml

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config, read_yaml
from alignatt_agent.config.languages import language

GROUP = "simulstream.agents"


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """What is going to run.

    Attributes:
        cls: the speech processor class.
        name: how the user named the configuration.
        config: our validated configuration; ``None`` for a foreign agent.
        raw: the mapping of a foreign agent.
    """

    cls: type[Any]
    name: str
    config: AgentConfig | None
    raw: Mapping[str, Any]

    def with_source(self, source: str) -> AgentChoice:
        """Return the same agent for another spoken language."""
        if self.config is None:
            return self
        config = self.config.model_copy(update={"source_language": language(source).code})
        return replace(self, config=config)

    def resolved_yaml(self, target: str) -> str:
        """Return the complete YAML of one target language."""
        if self.config is not None:
            return self.config.for_target(target).to_yaml()
        defaults = {
            "detokenizer_type": "simuleval",
            "latency_unit": language(target).latency_unit,
        }
        return yaml.safe_dump({**defaults, **self.raw}, sort_keys=False, allow_unicode=True)


def choose_agent(agent: str, config: str | None, overrides: Mapping[str, Any]) -> AgentChoice:
    """Resolve an agent.

    Args:
        agent: name of an entry point, dotted class, or path of a Simulstream YAML.
        config: name or path of a configuration; not with a YAML agent.
        overrides: dotted keys and values.

    Raises:
        ConfigError: the agent or the configuration does not exist or is not valid.
    """
    if agent.endswith((".yaml", ".yml")):
        if config is not None:
            raise ConfigError(f"--agent {agent} is a configuration already; leave out --config")
        config, dotted = agent, str(read_yaml(agent).get("type", ""))
        if not dotted:
            raise ConfigError(f"{agent} has no key 'type' with the dotted path of the agent class")
    else:
        dotted = _entry_point(agent) or agent
    cls = _import_class(dotted, agent)
    if config is None:
        raise ConfigError("--config is missing: name a configuration or the path of a YAML file")
    if issubclass(cls, AlignAttAgent):
        overrides = {"type": f"{cls.__module__}.{cls.__qualname__}", **overrides}
        return AgentChoice(cls, config, load_config(config, overrides), {})
    if overrides:
        raise ConfigError(f"--set works for our own agents, not for {dotted}; edit {config}")
    raw = {**read_yaml(config), "type": dotted.replace(":", ".")}
    return AgentChoice(cls, config, None, raw)


def known_agents() -> list[str]:
    """Names in the entry-point group ``simulstream.agents``."""
    return sorted(point.name for point in entry_points(group=GROUP))


def _entry_point(name: str) -> str | None:
    found = [point.value for point in entry_points(group=GROUP) if point.name == name]
    return found[0] if found else None


def _import_class(dotted: str, agent: str) -> type[Any]:
    module, _, name = dotted.replace(":", ".").rpartition(".")
    if module:
        try:
            cls = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
        except AttributeError:
            pass
        else:
            if isinstance(cls, type):
                return cls
    raise ConfigError(
        f"no agent {agent!r}: neither an entry point of {GROUP} ({', '.join(known_agents())}) "
        f"nor an importable class nor the path of a YAML file"
    )
