"""From scored runs to a bundle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from alignatt_agent.config.agent_config import AgentConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.bundle import RUN_FILES, Bundle, SystemName
from alignatt_agent.submission.devset_copy import copy_devset, find_devset, streamed
from alignatt_agent.submission.facts import DevSetFacts, Facts, write_facts
from alignatt_agent.submission.image import write_image
from alignatt_agent.submission.manifest import write_manifest
from alignatt_agent.submission.readmes import SystemFacts, write_readmes
from alignatt_agent.submission.server_config import evaluation_yaml, proxy_yaml


class BuildError(ValueError):
    """A bundle cannot be built; the message has the fix."""


@dataclass(frozen=True, slots=True)
class Run:
    """A scored run that goes into the bundle.

    Attributes:
        config: name or path of the configuration.
        folder: output folder of ``simulstream-eval``; each target has a folder below it.
        regime: ``"low"`` or ``"high"``.
    """

    config: str
    folder: Path
    regime: str


def pair_runs(
    configs: Sequence[str], folders: Sequence[Path], regimes: Sequence[str] | None
) -> list[Run]:
    """Pair configurations, runs and regimes by position.

    Args:
        configs: names or paths.
        folders: one run for each configuration.
        regimes: one for each configuration; ``None`` to read them off names like ``micro-low``.

    Raises:
        BuildError: the numbers differ, or a regime is unknown.
    """
    if len(configs) != len(folders):
        raise BuildError(
            f"{len(configs)} configurations and {len(folders)} runs: name one run folder for each "
            f"configuration, in the same order"
        )
    if regimes is None:
        regimes = [Path(config).stem.rpartition("-")[2] for config in configs]
    if len(regimes) != len(configs):
        raise BuildError(f"{len(configs)} configurations and {len(regimes)} regimes")
    for config, regime in zip(configs, regimes, strict=True):
        if regime not in REGIMES:
            raise BuildError(
                f"the regime of {config} is not known: add --regimes with one of "
                f"{', '.join(REGIMES)} for each configuration"
            )
    if len(set(regimes)) != len(regimes):
        raise BuildError(
            f"two configurations for one regime ({', '.join(regimes)}): a bundle holds one system "
            f"for each direction and regime"
        )
    return [Run(*item) for item in zip(configs, folders, regimes, strict=True)]


def build_bundle(
    runs: Sequence[Run],
    targets: Sequence[str],
    output: Path,
    devset: Path | None,
    team: str,
    contact: str,
    progress: bool = False,
) -> int:
    """Build a bundle; an earlier one in the same folder is replaced.

    Args:
        runs: what goes into it.
        targets: target languages, codes or names.
        output: folder of the bundle.
        devset: dev set of the runs; ``None`` for the one that their recordings lie in.
        team: name of the team.
        contact: address for questions.
        progress: show progress bars.

    Returns:
        Number of files.

    Raises:
        BuildError: a run is incomplete, or was done with another configuration.
        ConfigError: a configuration is not valid.
        DevSetError: the dev set cannot be used.
        ImageError: the image cannot be built from here.
        CheckpointError: a local checkpoint is missing.
        LanguageError: a target is unknown.
    """
    codes = list(dict.fromkeys(language(name).code for name in targets))
    systems: dict[SystemName, SystemFacts] = {}
    folders: dict[SystemName, Path] = {}
    configs: dict[str, str] = {}
    for run in runs:
        config = load_config(run.config)
        for code in codes:
            name = SystemName(run.regime, config.source_language, code)
            folders[name] = run.folder / code
            systems[name] = _read_run(folders[name], config, run)
            configs[str(name)] = run.config
    wavs = next(iter(folders.values())) / "wavs.txt"
    root = devset or find_devset(wavs)
    talks = streamed(wavs)
    loaded = load_devset(root, codes, audio=False)
    _claim(output)
    bundle = Bundle(output)
    with tqdm(total=4, unit="part", disable=not progress, leave=False) as bar:
        bar.set_description("logs and scores")
        for name, folder in folders.items():
            _write_system(bundle, name, folder)
        bar.update()
        bar.set_description("dev set")
        copy_devset(root, bundle.devset)
        write_facts(_facts(loaded, talks, configs, team, contact), bundle.facts)
        write_readmes(bundle, systems, loaded, team, contact)
        bar.update()
        bar.set_description("image")
        write_image(bundle, {name: facts.config for name, facts in systems.items()})
        bar.update()
        bar.set_description("checksums")
        return write_manifest(bundle, progress)


def _read_run(folder: Path, config: AgentConfig, run: Run) -> SystemFacts:
    again = f"simulstream-eval --config {run.config} --target {folder.name} --output {run.folder}"
    missing = [name for name in RUN_FILES if not (folder / name).is_file()]
    if missing:
        raise BuildError(
            f"{folder} is not a scored run, it lacks {', '.join(missing)}; make one: "
            f"{again} --devset DIR"
        )
    scores: dict[str, Any] = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    raw = yaml.safe_load((folder / "agent.yaml").read_text(encoding="utf-8"))
    used = AgentConfig.parse(raw, str(folder / "agent.yaml"))
    signed = scores.get("signature", {}).get("config_sha256")
    if not used.digest() == config.digest() == signed:
        raise BuildError(
            f"{folder} was not run with {run.config} as it is now: {run.config} has the hash "
            f"{config.digest()}, agent.yaml {used.digest()}, scores.json {signed}; run it again: "
            f"{again} --devset DIR"
        )
    return SystemFacts(used, scores)


def _claim(output: Path) -> None:
    """Make ``output`` an empty folder; only a bundle may be overwritten."""
    if output.exists():
        if not output.is_dir():
            raise BuildError(f"{output} is a file; name another --output")
        if any(output.iterdir()) and not Bundle(output).facts.is_file():
            raise BuildError(
                f"{output} is not empty and not a bundle, so it is left alone; name another "
                f"--output or empty it"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True)


def _write_system(bundle: Bundle, name: SystemName, folder: Path) -> None:
    files = bundle.system(name)
    files.folder.mkdir(parents=True)
    for item in RUN_FILES:
        shutil.copyfile(folder / item, files.folder / item)
    files.proxy.write_text(proxy_yaml(name.target), encoding="utf-8")
    files.evaluation.write_text(evaluation_yaml(name.target), encoding="utf-8")


def _facts(
    devset: DevSet, talks: dict[str, float], configs: dict[str, str], team: str, contact: str
) -> Facts:
    return Facts(
        team=team,
        contact=contact,
        systems=list(configs),
        configs=configs,
        devset=DevSetFacts(segments=len(devset.segments), talks=talks),
    )
