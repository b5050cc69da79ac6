"""Write the build context of the Docker image, and the READMEs of a bundle."""

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alignatt_agent.config.agent_config import AgentConfig, ModelConfig
from alignatt_agent.config.checkpoints import is_hub_id, locate_one
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import CHECKOUT_ROOT, find_path, known_resources
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import omnisteval_arguments
from alignatt_agent.evaluation.segments import SEGMENTATION
from alignatt_agent.submission.bundle import PORT, Bundle, Facts, SubmissionError, SystemName

TEMPLATES = Path(__file__).parent / "templates"

_SOURCES = ("alignatt_agent", "agent_configs", "head_sets", "requirements")
_SINGLE = ("pyproject.toml", "LICENSE", "README.md", "Dockerfile")
_IGNORED = shutil.ignore_patterns("__pycache__", "*.py[cod]", "*.nb[ci]", ".*")

_JINJA = Environment(
    loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
)


def _seconds(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds / 1000:.2f} s"


_JINJA.filters["seconds"] = _seconds


def render(template: str, **values: Any) -> str:
    """Fill in a template."""
    return _JINJA.get_template(template).render(values)


def write_image(bundle: Bundle, systems: Mapping[SystemName, AgentConfig]) -> None:
    """Write the build context for the resolved configuration of every system."""
    missing = [name for name in (*_SOURCES, *_SINGLE) if not (CHECKOUT_ROOT / name).exists()]
    if missing:
        raise SubmissionError(
            f"{CHECKOUT_ROOT} lacks {', '.join(missing)}: an image needs a checkout; "
            f"clone the repository and run `make submission` there"
        )
    source = bundle.image / "source"
    for name in _SOURCES:
        shutil.copytree(CHECKOUT_ROOT / name, source / name, ignore=_IGNORED)
    for name in _SINGLE:
        shutil.copy2(CHECKOUT_ROOT / name, source / name)
    for name in (".dockerignore", "server.yaml"):
        shutil.copyfile(TEMPLATES / name.lstrip("."), bundle.image / name)
    dockerfile = (CHECKOUT_ROOT / "Dockerfile").read_text(encoding="utf-8")
    # The same file builds the server of a checkout, by default.
    dockerfile = dockerfile.replace("ARG KIND=server\n", "ARG KIND=submission\n")
    dockerfile = dockerfile.replace("ARG SOURCE=.\n", "ARG SOURCE=source\n")
    (bundle.image / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    for system, config in systems.items():
        path = bundle.image_agent(system)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.to_yaml(), encoding="utf-8")
    _write_weights(bundle.image, systems.values())


def _write_weights(image: Path, configs: Iterable[AgentConfig]) -> None:
    """Copy local checkpoints and head sets; write commands that fetch the other checkpoints."""
    weights = image / "weights"
    weights.mkdir()
    commands: dict[str, None] = {}
    for config in configs:
        for role in config.models.roles:
            model: ModelConfig = getattr(config.models, role)
            if is_local(model):
                copy_relative(locate_one(model), model.path, weights)
                continue
            command = f"hf download {model.path}"
            if model.revision:
                command += f" --revision {model.revision}"
            commands[command] = None  # systems share most models
        for name in config.head_sets.values():
            # Packaged head sets are part of the source.
            if name not in known_resources("head_sets", ".json"):
                copy_relative(find_path(name), name, weights)
    script = render("fetch_weights.sh", commands=list(commands))
    (image / "fetch_weights.sh").write_text(script, encoding="utf-8")


def is_local(model: ModelConfig) -> bool:
    """Return whether a configured checkpoint is a directory instead of a hub ID."""
    # A directory whose path looks like a hub ID takes precedence, as when the agent starts.
    with contextlib.suppress(FileNotFoundError):
        find_path(model.path)
        return True
    return not is_hub_id(model)


def copy_relative(path: Path, configured: str, weights: Path) -> None:
    """Copy the file or folder at ``path`` to its ``configured`` relative path in the image."""
    relative = Path(configured)
    if relative.is_absolute() or ".." in relative.parts or configured.startswith("~"):
        raise SubmissionError(
            f"{configured} is a path on this machine and does not exist in an image; use a path "
            f"relative to the working directory, or a hub ID, and run the dev set again"
        )
    target = weights / relative
    if target.exists():  # another system has the same checkpoint
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, ignore=_IGNORED)
    else:
        shutil.copy2(path, target)


def write_readmes(
    bundle: Bundle,
    facts: Facts,
    scores: Mapping[SystemName, Mapping[str, Any]],
    devset: DevSet,
) -> None:
    """Write the top-level README and a README for each system, with exact commands."""
    # Names of Docker images consist of small letters, digits and separators.
    image = re.sub(r"[^a-z0-9]+", "-", facts.team.lower()).strip("-") or "submission"
    common = {"image": image, "port": PORT, "regimes": REGIMES}
    text = render("README.md", **common, facts=facts, scores=scores, devset=devset)
    bundle.readme.write_text(text, encoding="utf-8")
    for name, system_scores in scores.items():
        text = render(
            "SYSTEM.md",
            **common,
            name=name,
            scores=system_scores,
            source=language(name.source),
            target=language(name.target),
            omnisteval=scoring_command(bundle, name, devset),
        )
        bundle.system(name).readme.write_text(text, encoding="utf-8")


def scoring_command(bundle: Bundle, name: SystemName, devset: DevSet) -> str:
    """Return the ``omnisteval`` command for a new log; paths are relative to the bundle."""
    inside = Path(bundle.devset.name)
    references = {name.target: inside / "ref" / f"{name.target}.txt"}
    arguments = omnisteval_arguments(
        RunFiles(Path("scores")),
        replace(devset, segmentation=inside / SEGMENTATION, references=references),
        name.target,
        hypothesis=Path("metrics.jsonl"),
        config=Path(bundle.where(bundle.system(name).evaluation)),
    )
    return shlex.join(["omnisteval", *arguments])
