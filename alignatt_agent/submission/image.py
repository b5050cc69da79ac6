"""The build context of the Docker image: this package, its locked environment and its settings."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.checkpoints import EMBEDDED, ROLES, locate_one
from alignatt_agent.config.resources import CHECKOUT_ROOT, find_path, known_resources
from alignatt_agent.config.sections import gpu_shares, shares_are_written
from alignatt_agent.submission.bundle import Bundle, SubmissionError, SystemName

TEMPLATES = Path(__file__).parent / "templates"

_SOURCES = ("alignatt_agent", "agent_configs", "head_sets", "requirements")
_SINGLE = ("pyproject.toml", "LICENSE", "README.md")
_IGNORED = shutil.ignore_patterns("__pycache__", "*.py[cod]", "*.nb[ci]", ".*")

_JINJA = Environment(
    loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
)
_JINJA.filters["seconds"] = lambda milliseconds: f"{milliseconds / 1000:.2f} s"


def render(template: str, **values: Any) -> str:
    """Fill in one of the templates."""
    return _JINJA.get_template(template).render(values)


def write_image(bundle: Bundle, systems: Mapping[SystemName, AgentConfig]) -> None:
    """Write the build context.

    Args:
        bundle: the bundle.
        systems: resolved configuration of every system.

    Raises:
        SubmissionError: the package does not run from a checkout, or a path would not exist in an
            image.
        CheckpointError: a local checkpoint is missing.
    """
    missing = [name for name in (*_SOURCES, *_SINGLE) if not (CHECKOUT_ROOT / name).exists()]
    if missing:
        raise SubmissionError(
            f"{CHECKOUT_ROOT} lacks {', '.join(missing)}: an image is built from a checkout; "
            f"clone the repository and run `make submission` in it"
        )
    source = bundle.image / "source"
    for name in _SOURCES:
        shutil.copytree(CHECKOUT_ROOT / name, source / name, ignore=_IGNORED)
    for name in _SINGLE:
        shutil.copy2(CHECKOUT_ROOT / name, source / name)
    for name in ("Dockerfile", ".dockerignore", "server.yaml"):
        shutil.copyfile(TEMPLATES / name.lstrip("."), bundle.image / name)
    for system, config in systems.items():
        path = bundle.image_agent(system)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.to_yaml(), encoding="utf-8")
    _write_weights(bundle.image, systems.values())


def _write_weights(image: Path, configs: Iterable[AgentConfig]) -> None:
    """Copy local checkpoints and head sets; write the commands that fetch the others."""
    weights = image / "weights"
    weights.mkdir()
    commands: dict[str, None] = {}
    for config in configs:
        for model in (getattr(config.models, role) for role in ROLES):
            if is_local(model.path):
                copy_relative(locate_one(model), model.path, weights)
            else:
                revision = f" --revision {model.revision}" if model.revision else ""
                commands[f"hf download {model.path}{revision}"] = None
        for name in config.head_sets.values():
            if name not in known_resources("head_sets", ".json"):
                copy_relative(find_path(name), name, weights)
    script = render("fetch_weights.sh", commands=list(commands))
    (image / "fetch_weights.sh").write_text(script, encoding="utf-8")


def is_local(path: str) -> bool:
    """Whether a configured checkpoint is a directory rather than an id of the hub."""
    if path.split("/")[0] == EMBEDDED or path.count("/") != 1:
        return True
    try:
        find_path(path)
    except FileNotFoundError:
        return False
    return True


def copy_relative(found: Path, configured: str, weights: Path) -> None:
    """Copy a file or folder to the place where the same relative path finds it in the image.

    Raises:
        SubmissionError: the configured path is absolute or leaves the folder.
    """
    relative = Path(configured)
    if relative.is_absolute() or ".." in relative.parts or configured.startswith("~"):
        raise SubmissionError(
            f"{configured} is a path of this machine and will not exist in an image; name it "
            f"relative to the working directory, or by its id on the hub, and run the dev set again"
        )
    target = weights / relative
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if found.is_dir():
        shutil.copytree(found, target, ignore=_IGNORED)
    else:
        shutil.copy2(found, target)


def gpu_share(configs: Iterable[AgentConfig]) -> float | None:
    """Largest share of the GPU that the three engines of a system claim; ``None`` if not set."""
    written = [config.models for config in configs if shares_are_written(config.models)]
    return max((sum(gpu_shares(models).values()) for models in written), default=None)
