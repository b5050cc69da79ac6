"""Plan an evaluation and check it before models are loaded."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.languages import language
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.config.yaml_text import read_yaml
from alignatt_agent.evaluation.agent_choice import AgentChoice, choose_agent
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.log import Log, LogError, parse_log
from alignatt_agent.evaluation.run_files import RunFiles, read_json
from alignatt_agent.evaluation.score import check_scorer, omnisteval_arguments, scorer_settings
from alignatt_agent.machine.device import device
from alignatt_agent.machine.packages import versions

DEVICES = "devices"
"""Key of the talks' devices in the signature of a cluster run."""

ASKED = "asked"
"""Key of this machine's models in the signature, if a cluster's workers used other models."""


@dataclass(frozen=True, slots=True)
class EvalRun:
    """One target of one configuration, or one log, that passed all preliminary checks.

    ``name`` is the configuration or log as the user specified it. ``source`` and ``target`` are
    language codes. ``signature`` contains all settings that the scores depend on.
    """

    name: str
    devset: DevSet
    source: str
    target: str
    files: RunFiles
    signature: dict[str, Any]
    choice: AgentChoice | None = None
    log: Log | None = None

    @property
    def label(self) -> str:
        """Return the run's name for messages."""
        return f"{self.name} {self.target}"

    @property
    def agent_class(self) -> type[AlignAttAgent]:
        """Return the class of the agent."""
        assert self.choice is not None
        return self.choice.cls

    @property
    def commands(self) -> list[str]:
        """Return the equivalent official commands."""
        files = self.files
        log = self.log or Log(files.metrics)
        scoring = omnisteval_arguments(files, self.devset, self.target, log.format)
        commands = [shlex.join(["omnisteval", *scoring])]
        if self.choice is not None:
            inference = ["simulstream_inference"]
            inference += ["--speech-processor-config", str(files.config)]
            inference += ["--wav-list-file", str(files.wavs)]
            inference += ["--tgt-lang", self.target, "--src-lang", self.source]
            inference += ["--metrics-log-file", str(files.metrics)]
            commands.insert(0, shlex.join(inference))
        return commands

    @property
    def streamed(self) -> bool:
        """Whether an earlier call with the same signature streamed all talks."""
        return self.files.metrics.is_file() and self.signed(read_json(self.files.finished))

    @property
    def scored(self) -> bool:
        """Whether an earlier call with the same signature scored the run."""
        return self.signed(read_json(self.files.scores).get("signature"))

    @property
    def recorded(self) -> dict[str, Any]:
        """Return the signature of the stream, from this call or an earlier one."""
        return read_json(self.files.finished) or self.signature

    def signed(self, signature: Any) -> bool:
        """Return whether ``signature`` equals this run's signature, ignoring the talks' devices."""
        if not isinstance(signature, dict):
            return False
        # The workers of a cluster can have other devices, and models that fit on them.
        ignored = [DEVICES, ASKED]
        if DEVICES in signature:
            ignored.append("device")
        blanks = dict.fromkeys(ignored)
        planned = {**signature, **signature.get(ASKED, {})}
        return {**self.signature, **blanks} == {**planned, **blanks}


def plan(
    agent: str,
    configs: Sequence[str],
    overrides: Mapping[str, Any],
    source: str | None,
    targets: Sequence[str],
    devset: Path,
    output: Path,
    paced: bool = False,
    live: bool = True,
) -> list[EvalRun]:
    """Make all checks that require no model; return a run for each target and configuration.

    Raises:
        ConfigError: an option or a configuration is invalid.
        DevSetError: the dev set has problems.
        ScoringError: a program that the scorer calls is missing.
    """
    codes = tuple(dict.fromkeys(language(name).code for name in targets))
    # Each configuration has an output folder of this name.
    names = [Path(config).stem for config in configs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"--config has {', '.join(repeated)} twice; specify each name once")
    clock = "audio by the clock" if paced else "not paced"
    latency = f"CA as Simulstream defines it (backlog not counted); {clock}"
    runs: list[EvalRun] = []
    for config, name in zip(configs, names, strict=True):
        choice = choose_agent(
            agent=agent,
            config=config,
            overrides=overrides,
            source=source,
            targets=codes,
            contexts=devset / CONTEXTS,
            live=live,
        )
        spoken = choice.config.source_language
        checked = load_devset(devset, codes, output, spoken)
        root = output / name if len(configs) > 1 else output
        for code in codes:
            run = EvalRun(
                name=choice.name,
                devset=checked,
                source=spoken,
                target=code,
                files=RunFiles(root / code),
                signature=choice.sign(checked, code, latency),
                choice=choice,
            )
            runs.append(run)
    check_scorer(codes)
    return runs


def plan_log(
    log: Path,
    target: str,
    devset: Path,
    output: Path,
    log_config: Path | None = None,
    source: str = "en",
) -> EvalRun:
    """Copy a log, its configuration and the files of its run into a separate folder.

    No audio is needed. ``log_config`` is the YAML file that states how to join the units of a
    Simulstream log; the default is ``agent.yaml`` next to the log. Without such a file, the units
    are whole words (single characters for Chinese).

    Raises:
        DevSetError: the dev set has problems.
        LogError: the log or its configuration cannot be read, or ``output`` contains a run.
    """
    code = language(target).code
    spoken = language(source).code
    check_scorer([code])
    checked = load_devset(devset, [code], output, spoken, audio=False)
    files = RunFiles(output / code)
    # All inputs are checked and read before files.clean deletes the results of an earlier call.
    if log.resolve().parent == files.folder.resolve():
        raise LogError(f"{log} is in the output folder {files.folder}; choose another --output")
    if files.finished.is_file():
        raise LogError(
            f"{files.folder} contains a streamed run, which would be deleted: choose another "
            f"--output"
        )
    if log_config is not None and not log_config.is_file():
        raise LogError(f"{log_config} does not exist")
    parsed = parse_log(log)
    # JSONL contains joined text, which needs no settings.
    settings = None
    if parsed.format == "simulstream":
        settings = _scorer_settings(log_config or log.with_name(files.config.name), code)
    files.clean()
    shutil.copyfile(log, files.metrics)
    for path in (files.records, files.clock):
        original = log.with_name(path.name)
        if original.is_file():
            shutil.copyfile(original, path)
    if settings:
        files.config.write_text(settings, encoding="utf-8")
    signature = {
        "config": str(log),
        "target": code,
        "log_sha256": short_digest([log.read_bytes()]),
        "versions": versions(),
        "device": device(),
        "devset": checked.digest(code),
        "latency": "as logged; not known whether the run was paced",
    }
    return EvalRun(
        name=str(log),
        devset=checked,
        source=spoken,
        target=code,
        files=files,
        signature=signature,
        log=parsed,
    )


def _scorer_settings(config: Path, target: str) -> str:
    """Return the YAML that tells the scorers how to join the units of a log."""
    settings: dict[str, Any] = dict(scorer_settings(target))
    if config.is_file():
        settings = read_yaml(config) or {}
        if not isinstance(settings, dict) or "detokenizer_type" not in settings:
            raise LogError(
                f"{config} lacks detokenizer_type (hf, canary or simuleval), so the units of the "
                f"log cannot be joined; pass an evaluation YAML with --log-config"
            )
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
