"""The validator: everything that can be wrong with a bundle, named, with the fix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import Finding, check_log
from alignatt_agent.evaluation.devset import DevSet, DevSetError, load_devset
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.log import Log, parse_log
from alignatt_agent.evaluation.results import Scores
from alignatt_agent.submission.bundle import Bundle, SystemName
from alignatt_agent.submission.facts import Facts, read_facts
from alignatt_agent.submission.image import gpu_share
from alignatt_agent.submission.language_id import wrong_language
from alignatt_agent.submission.manifest import check_manifest
from alignatt_agent.submission.rescoring import check_regime, check_scores
from alignatt_agent.submission.server_config import read_server
from alignatt_agent.submission.versions import check_config, check_same_versions, check_versions

_IMAGE_FILES = ("Dockerfile", "server.yaml", "fetch_weights.sh", "source/pyproject.toml")


@dataclass(slots=True)
class Report:
    """Result of a check.

    Attributes:
        findings: all violations.
        scores: what each log scored when it was scored again.
        tokens: how many units each system emitted.
    """

    findings: list[Finding] = field(default_factory=list)
    scores: dict[SystemName, Scores] = field(default_factory=dict)
    tokens: dict[SystemName, int] = field(default_factory=dict)


def check_bundle(root: Path, rescoring: bool = True, progress: bool = False) -> Report:
    """Check a bundle.

    Args:
        root: its folder.
        rescoring: score the logs again; takes most of the time.
        progress: show progress bars.

    Raises:
        FactsError: the folder is not a bundle.
    """
    bundle = Bundle(root)
    facts = read_facts(bundle.facts)
    names = facts.names()
    report = Report(check_manifest(bundle, progress))
    devset, problems = _read_devset(bundle, names)
    report.findings += problems + _undeclared(bundle, names)
    configs: list[AgentConfig] = []
    signatures: dict[SystemName, Mapping[str, Any]] = {}
    with tqdm(names, "systems", unit="system", disable=not progress, leave=False) as bar:
        for name in bar:
            bar.set_postfix_str(str(name))
            missing = _missing_files(bundle, name)
            report.findings += missing
            if missing:
                continue
            config, signature = _check_system(report, bundle, name, facts, devset, rescoring)
            signatures[name] = signature
            configs += [config] if config is not None else []
    report.findings += check_same_versions(signatures)
    report.findings += _check_image(bundle, configs)
    return report


def _check_system(
    report: Report,
    bundle: Bundle,
    name: SystemName,
    facts: Facts,
    devset: DevSet | None,
    rescoring: bool,
) -> tuple[AgentConfig | None, Mapping[str, Any]]:
    files = bundle.system(name)
    where = files.metrics.relative_to(bundle.root).as_posix()
    claimed, findings = _read_scores(files.scores, bundle)
    signature: Mapping[str, Any] = claimed.get("signature") or {}
    config, more = check_config(bundle, name, signature)
    findings += more
    if signature and devset is not None:
        place = files.scores.relative_to(bundle.root).as_posix()
        findings += check_versions(bundle, place, signature, devset, name.target)
    log = parse_log(files.metrics)
    chunk_ms = config.chunk_ms if config is not None else int(signature.get("chunk_ms") or 0)
    if chunk_ms:
        unit = language(name.target).latency_unit
        findings += check_log(log, where, facts.devset.talks, unit, chunk_ms)
    findings += _check_language(log, where, name.target, bundle)
    report.tokens[name] = sum(len(talk.tokens) for talk in log.talks)
    if rescoring and devset is not None:
        scores, more = check_scores(files, where, devset, name, claimed)
        findings += more
        if scores is not None:
            report.scores[name] = scores
    elif isinstance(claimed.get("longyaal_cu_ms"), int | float):
        findings += check_regime(where, name.regime, claimed["longyaal_cu_ms"])
    report.findings += findings
    return config, signature


def _read_scores(path: Path, bundle: Bundle) -> tuple[dict[str, Any], list[Finding]]:
    where = path.relative_to(bundle.root).as_posix()
    fix = "hand in scores.json as simulstream-eval wrote it"
    try:
        claimed = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return {}, [Finding("scores", where, f"not JSON: {error}", fix)]
    if not isinstance(claimed, dict) or not isinstance(claimed.get("signature"), dict):
        return {}, [Finding("scores", where, "has no signature", fix)]
    return claimed, []


def _check_language(log: Log, where: str, target: str, bundle: Bundle) -> list[Finding]:
    tokens = [token for talk in log.talks for token in talk.tokens]
    if not tokens:
        return []  # said already, talk by talk
    samples = {
        path.stem: path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((bundle.devset / "ref").glob("*.txt"))
    }
    joiner = " " if language(target).spaced else ""
    problem = wrong_language(joiner.join(tokens), target, samples)
    if problem is None:
        return []
    fix = f"hand in the log of the run into {target} here"
    return [Finding("direction", where, f"the output is not {target}: {problem}", fix)]


def _read_devset(bundle: Bundle, names: list[SystemName]) -> tuple[DevSet | None, list[Finding]]:
    targets = sorted({name.target for name in names})
    try:
        return load_devset(bundle.devset, targets, audio=False), []
    except DevSetError as error:
        fix = "build the bundle again from the dev set that was streamed"
        return None, [Finding("devset", bundle.devset.name, str(error), fix)]


def _undeclared(bundle: Bundle, names: list[SystemName]) -> list[Finding]:
    """Nothing may lie in a bundle that is not checked."""
    declared = {bundle.system(name).folder for name in names}
    return [
        Finding(
            "files",
            folder.relative_to(bundle.root).as_posix(),
            f"{bundle.facts.name} does not list this system",
            "remove the folder, or build the bundle again with this system",
        )
        for folder in sorted((bundle.root / "systems").glob("*/*"))
        if folder not in declared
    ]


def _missing_files(bundle: Bundle, name: SystemName) -> list[Finding]:
    fix = "build the bundle again"
    findings = [
        Finding("files", path.relative_to(bundle.root).as_posix(), "the file is missing", fix)
        for path in bundle.system(name).required()
        if not path.is_file()
    ]
    if name.regime not in REGIMES:
        known = ", ".join(REGIMES)
        message = f"the regime is {name.regime!r}, expected one of {known}"
        findings.append(Finding("regime", str(name), message, "correct submission.json"))
    return findings


def _check_image(bundle: Bundle, configs: list[AgentConfig]) -> list[Finding]:
    fix = "build the bundle again"
    findings = [
        Finding("image", f"image/{name}", "the file is missing", fix)
        for name in _IMAGE_FILES
        if not (bundle.image / name).is_file()
    ]
    server = bundle.image / "server.yaml"
    if server.is_file():
        try:
            read_server(server)
        except ConfigError as error:
            findings.append(Finding("image", "image/server.yaml", str(error), fix))
    share = gpu_share(configs)
    if share is not None and share > 0.97:
        message = f"the engines of a system claim {share:.0%} of one GPU"
        lower = "lower gpu_memory_utilization in the configuration and run the dev set again"
        findings.append(Finding("image", "image", message, lower))
    return findings
