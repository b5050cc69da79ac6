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
    return "-" if milliseconds is None else f"{milliseconds / 1000:.2f} s"


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
    for default, here in (("KIND=server", "KIND=submission"), ("SOURCE=.", "SOURCE=source")):
        dockerfile = dockerfile.replace(f"ARG {default}\n", f"ARG {here}\n")
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
        for model in (getattr(config.models, role) for role in config.models.roles):
            if is_local(model):
                copy_relative(locate_one(model), model.path, weights)
            else:
                revision = f" --revision {model.revision}" if model.revision else ""
                commands[f"hf download {model.path}{revision}"] = None
        for name in config.head_sets.values():
            if name not in known_resources("head_sets", ".json"):
                copy_relative(find_path(name), name, weights)
    script = render("fetch_weights.sh", commands=list(commands))
    (image / "fetch_weights.sh").write_text(script, encoding="utf-8")


def is_local(model: ModelConfig) -> bool:
    """Return whether a configured checkpoint is a directory instead of a hub ID."""
    with contextlib.suppress(FileNotFoundError):
        find_path(model.path)
        return True
    return not is_hub_id(model)


def copy_relative(found: Path, configured: str, weights: Path) -> None:
    """Copy a file or folder to the same relative path in the image."""
    relative = Path(configured)
    if relative.is_absolute() or ".." in relative.parts or configured.startswith("~"):
        raise SubmissionError(
            f"{configured} is a path on this machine and does not exist in an image; use a path "
            f"relative to the working directory, or a hub ID, and run the dev set again"
        )
    target = weights / relative
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if found.is_dir():
        shutil.copytree(found, target, ignore=_IGNORED)
    else:
        shutil.copy2(found, target)


def write_readmes(
    bundle: Bundle,
    facts: Facts,
    scores: Mapping[SystemName, Mapping[str, Any]],
    devset: DevSet,
) -> None:
    """Write the top-level README and a README for each system, with exact commands."""
    image = re.sub(r"[^a-z0-9]+", "-", facts.team.lower()).strip("-") or "submission"
    common = {"image": image, "port": PORT, "regimes": REGIMES}
    text = render("README.md", **common, facts=facts, scores=scores, devset=devset)
    bundle.readme.write_text(text, encoding="utf-8")
    for name, found in scores.items():
        text = render(
            "SYSTEM.md",
            **common,
            name=name,
            scores=found,
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
