"""Plan an evaluation, and check it before models are loaded."""

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.config.machine import device, versions
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.evaluation.agent_choice import AgentChoice, choose_agent
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.log import Log, LogError, parse_log
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import check_scorer, omnisteval_arguments, scorer_settings
from alignatt_agent.evaluation.subwords import check_vocabulary, locate_tokenizer

DEVICES = "devices"
"""Key for the device of each talk, in the signature of a run on a cluster."""

ASKED = "asked"
"""Key for the models of this machine, in such a signature if workers used other ones."""

LATE_S = 2.0
"""Computation after the end of a recording that is not reported."""


@dataclass(frozen=True, slots=True)
class EvalRun:
    """One target of one configuration, or one log, that passed every check without a model.

    ``name`` is the user's name of the configuration or the log, ``source`` and ``target`` are codes
    of languages, ``signature`` holds everything that the scores depend on.
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
        """Name in messages."""
        return f"{self.name} {self.target}"

    @property
    def agent_class(self) -> type[Any]:
        """The class of its agent."""
        assert self.choice is not None
        return self.choice.cls

    @property
    def commands(self) -> list[str]:
        """The equivalent official commands."""
        log, files = self.log or Log(self.files.metrics), self.files
        given = omnisteval_arguments(
            files, self.devset, self.target, log.format, cumulative=log.cumulative
        )
        inference = [
            "simulstream_inference",
            *("--speech-processor-config", str(files.config)),
            *("--wav-list-file", str(files.wavs)),
            *("--tgt-lang", self.target, "--src-lang", self.source),
            *("--metrics-log-file", str(files.metrics)),
        ]
        commands = [inference, ["omnisteval", *given]] if self.choice else [["omnisteval", *given]]
        return [shlex.join(command) for command in commands]

    @property
    def streamed(self) -> bool:
        """Whether an earlier call with the same signature streamed it completely."""
        return self.files.metrics.is_file() and self.signed(_read(self.files.finished))

    @property
    def scored(self) -> bool:
        """Whether an earlier call with the same signature scored it."""
        return self.signed(_read(self.files.scores).get("signature"))

    @property
    def recorded(self) -> dict[str, Any]:
        """The signature of its stream, from this call or an earlier one."""
        return _read(self.files.finished) or self.signature

    def signed(self, signature: Any) -> bool:
        """Whether a signature is the same, apart from the devices of its talks."""
        if not isinstance(signature, dict):
            return False
        free = dict.fromkeys([DEVICES, ASKED, *(["device"] if DEVICES in signature else [])])
        return {**self.signature, **free} == {**signature, **signature.get(ASKED, {}), **free}


def plan(
    agent: str,
    configs: Sequence[str | None],
    overrides: Mapping[str, Any],
    source: str | None,
    targets: Sequence[str],
    devset: Path,
    output: Path,
    paced: bool = False,
    live: bool = True,
) -> list[EvalRun]:
    """Check everything that needs no model; return a run for every target and configuration."""
    codes = tuple(dict.fromkeys(language(name).code for name in targets))
    names = [Path(config or "").stem for config in configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--config names {', '.join(twice)} twice; name each once")
    clock = "audio by the clock" if paced else "not paced"
    latency = f"CA as Simulstream defines it (backlog not counted); {clock}"
    runs = []
    for config, name in zip(configs, names, strict=True):
        choice = choose_agent(agent, config, overrides, source, codes, devset / CONTEXTS, live)
        spoken = choice.config.source_language if choice.config else language(source or "en").code
        if choice.config is None:
            locate_tokenizer(choice.raw, config or agent)
        checked = load_devset(devset, codes, output, spoken)
        root = output / name if len(configs) > 1 else output
        runs += [
            EvalRun(
                name=choice.name,
                devset=checked,
                source=spoken,
                target=code,
                files=RunFiles(root / code),
                signature=choice.sign(checked, code, latency),
                choice=choice,
            )
            for code in codes
        ]
    check_scorer(codes)
    return runs


def plan_log(
    log: Path,
    target: str,
    devset: Path,
    output: Path,
    log_config: Path | None = None,
    source: str = "en",
    cumulative: bool = False,
) -> EvalRun:
    """Copy a log, its configuration and the files of its run into a separate folder.

    No audio is needed. ``log_config`` has ``detokenizer_type`` of a Simulstream log; default is
    ``agent.yaml`` next to it, or whole words (single characters for Chinese). Elapsed times of a
    ``cumulative`` log add up, as SimulEval's do.
    """
    code, spoken = language(target).code, language(source).code
    check_scorer([code])
    checked = load_devset(devset, [code], output, spoken, audio=False)
    files = RunFiles(output / code)
    if log.resolve().parent == files.folder.resolve():
        raise LogError(f"{log} is in {files.folder}, the output folder; name another --output")
    if log_config is not None and not log_config.is_file():
        raise LogError(f"{log_config} does not exist")
    parsed = parse_log(log)
    parsed.cumulative = cumulative
    settings = None
    if parsed.format == "simulstream":
        if cumulative:
            raise LogError(f"{log} is Simulstream's; --fix-simuleval-ca is for SimulEval's JSONL")
        settings = _scorer_settings(log_config or log.with_name(files.config.name), code, parsed)
    elif not cumulative and (note := _late(parsed, checked)):
        checked = replace(checked, notes=(*checked.notes, note))
    files.clean()
    shutil.copyfile(log, files.metrics)
    for path in (files.records, files.clock):
        if log.with_name(path.name).is_file():
            shutil.copyfile(log.with_name(path.name), path)
    if settings:
        files.config.write_text(settings, encoding="utf-8")
    as_logged = "SimulEval's elapsed times made incremental" if cumulative else "as logged"
    signature = {
        "config": str(log),
        "target": code,
        "log_sha256": hashlib.sha256(log.read_bytes()).hexdigest()[:12],
        "versions": versions(),
        "device": device(),
        "devset": checked.digest(code),
        "latency": f"{as_logged}; not known whether the run was paced",
    }
    return EvalRun(str(log), checked, spoken, code, files, signature, log=parsed)


def _late(log: Log, devset: DevSet) -> str | None:
    """Return a note if elapsed times exceed the recordings, as SimulEval's sums do."""
    ends = {talk.name: talk.seconds for talk in devset.talks}
    late = {
        talk.name: _last_s(talk.instance, "elapsed")
        - max(ends.get(talk.name, 0.0), _last_s(talk.instance, "delays"))
        for talk in log.talks
        if talk.instance is not None
    }
    name = max(late, key=late.__getitem__, default="")
    if late.get(name, 0.0) <= LATE_S:
        return None
    return (
        f"{log.path.name}: elapsed of {name} continues for {late[name]:.0f} s after the recording. "
        "SimulEval sums the computation of a whole talk, which LongYAAL CA must not count; if this "
        "log is SimulEval's, repeat with --fix-simuleval-ca (OmniSTEval's "
        "--fix_simuleval_emission_ca)"
    )


def _last_s(instance: Mapping[str, Any], key: str) -> float:
    times = [time for time in instance.get(key) or () if isinstance(time, int | float)]
    return max(times, default=0.0) / 1000


def _scorer_settings(config: Path, target: str, log: Log) -> str:
    """Return the YAML by which the scorers join the units of a log."""
    settings: dict[str, Any] = {**scorer_settings(target)}
    if config.is_file():
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise LogError(f"{config} is not a mapping of keys")
        if "detokenizer_type" not in settings:
            raise LogError(
                f"{config} has no detokenizer_type (hf, canary or simuleval), so the units of the "
                f"log cannot be joined; name an evaluation YAML with --log-config"
            )
        settings = locate_tokenizer(settings, config)
        units = [token for talk in log.talks for token in talk.tokens]
        check_vocabulary(settings, units, config)
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
