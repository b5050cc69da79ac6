"""Read YAML strictly: PyYAML would keep the last of several equal keys without a word."""

from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.resources import read_text


def read_yaml(path: Path) -> Any:
    """Read a UTF-8 YAML file.

    Raises:
        ConfigError: the file cannot be read or is not UTF-8, or its YAML is invalid or has a key
            twice.
    """
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, origin: str) -> Any:
    """Parse one YAML document; ``origin`` names it in messages.

    Raises:
        ConfigError: the YAML is invalid, or a mapping has a key twice.
    """
    loader: Any = yaml.CSafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_keys(root, origin, set())
        return loader.construct_document(root)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid YAML: {error}") from None
    except ConfigError:
        raise
    except ValueError as error:  # e.g. the date 2026-02-30
        raise ConfigError(f"{origin} contains a value that YAML does not allow: {error}") from None
    finally:
        loader.dispose()


def _check_keys(node: yaml.Node, origin: str, seen: set[int]) -> None:
    """Reject a mapping with two equal keys; an alias refers to a node that was ``seen``."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _check_keys(child, origin, seen)
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            _check_keys(value, origin, seen)
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            # The number 1 and the text "1" are different keys with the same characters.
            name = (key.tag, key.value)
            if name in lines:
                raise ConfigError(
                    f"{origin}: the key {key.value!r} in line {line} is already in line "
                    f"{lines[name]}; keep one"
                )
            lines[name] = line
