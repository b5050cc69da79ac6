"""Build a bundle from scored runs."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.run_files import read_json
from alignatt_agent.evaluation.segments import SEGMENTATION
from alignatt_agent.submission.bundle import (
    RUN_FILES,
    Bundle,
    Facts,
    SubmissionError,
    SystemName,
    evaluation_yaml,
    proxy_yaml,
    unserved_contexts,
    write_checksums,
)
from alignatt_agent.submission.image import write_image, write_readmes


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run of ``simulstream-eval``, with one folder per target."""

    config: str
    folder: Path
    regime: str


def pair_runs(configs: Sequence[str], folders: Sequence[Path]) -> list[ScoredRun]:
    """Pair configurations and runs by position; the name ``micro-low`` means regime ``low``."""
    if len(configs) != len(folders):
        raise SubmissionError(
            f"got {len(configs)} configurations and {len(folders)} runs: pass one run folder per "
            f"configuration, in the same order"
        )
    regimes = [Path(config).stem.rpartition("-")[2] for config in configs]
    if len(set(regimes) & set(REGIMES)) != len(configs):
        raise SubmissionError(
            f"the names of the configurations end in {', '.join(regimes)}; expected a different "
            f"regime ({', '.join(REGIMES)}) at the end of each name: rename the files"
        )
    runs: list[ScoredRun] = []
    for config, folder, regime in zip(configs, folders, regimes, strict=True):
        runs.append(ScoredRun(config, folder, regime))
    return runs


def build_bundle(
    runs: Sequence[ScoredRun],
    targets: Sequence[str],
    output: Path,
    devset: Path,
    team: str,
    contact: str,
) -> int:
    """Build a bundle and return its number of files; any earlier bundle is replaced."""
    codes = list(dict.fromkeys(language(name).code for name in targets))
    # Incomplete runs are rejected before an earlier bundle is removed.
    for run in runs:
        for code in codes:
            _require_scores(run.folder / code, run, devset)
    loaded = load_devset(devset, codes, runs[0].folder)
    sources: dict[SystemName, Path] = {}
    configs: dict[SystemName, AgentConfig] = {}
    scores: dict[SystemName, dict[str, Any]] = {}
    for run in runs:
        config = load_config(run.config)
        for code in codes:
            name = SystemName(run.regime, config.source_language, code)
            sources[name] = run.folder / code
            configs[name], scores[name] = _read_run(sources[name], config, run, devset)
    facts = Facts(
        team=team,
        contact=contact,
        systems=[str(name) for name in sources],
        talks={talk.name: talk.seconds for talk in loaded.talks},
    )
    bundle = _claim(output)
    for name, source in sources.items():
        _write_system(bundle, name, source)
    _write_devset(bundle, devset, loaded)
    bundle.facts.write_text(facts.model_dump_json(indent=2) + "\n", encoding="utf-8")
    write_readmes(bundle, facts, scores, loaded)
    write_image(bundle, configs)
    # The checksums come last, because they cover all other files.
    return write_checksums(bundle)


def _require_scores(folder: Path, run: ScoredRun, devset: Path) -> None:
    """Reject the folder of one target if it lacks a file of a scored run."""
    missing = [name for name in RUN_FILES if not (folder / name).is_file()]
    if missing:
        raise SubmissionError(
            f"{folder} is not a scored run: it lacks {', '.join(missing)}; run: "
            f"{_command(folder, run, devset)}"
        )


def _write_system(bundle: Bundle, name: SystemName, source: Path) -> None:
    """Copy the files of one run, and write the YAML files that repeat it."""
    files = bundle.system(name)
    files.folder.mkdir(parents=True)
    for file_name in RUN_FILES:
        shutil.copyfile(source / file_name, files.folder / file_name)
    files.proxy.write_text(proxy_yaml(name.target), encoding="utf-8")
    files.evaluation.write_text(evaluation_yaml(name.target), encoding="utf-8")


def _write_devset(bundle: Bundle, devset: Path, loaded: DevSet) -> None:
    """Copy the segmentation and the references, without audio."""
    (bundle.devset / "ref").mkdir(parents=True)
    # References in other languages help to identify the language of an output.
    for file in (*(devset / "ref").glob("*.txt"), *loaded.references.values()):
        shutil.copyfile(file, bundle.devset / "ref" / file.name)
    shutil.copyfile(loaded.segmentation, bundle.devset / SEGMENTATION)


def _read_run(
    folder: Path, config: AgentConfig, run: ScoredRun, devset: Path
) -> tuple[AgentConfig, dict[str, Any]]:
    """Return the resolved configuration and the scores of one target of a run."""
    scores = read_json(folder / "scores.json")
    used = load_config(str(folder / "agent.yaml"))
    if problem := unserved_contexts(used):
        raise SubmissionError(
            f"{folder / 'agent.yaml'}: {problem}; set speech.context to one list for all talks or "
            f"to [], and run: {_command(folder, run, devset)}"
        )
    # --set speech.context=[] disables the contexts of a dev set, and changes the hash.
    if config.speech.context is None and used.speech.context == ():
        config = load_config(run.config, {"speech.context": []})
    signed = scores.get("signature", {}).get("config_sha256")
    if not used.digest() == config.digest() == signed:
        raise SubmissionError(
            f"{run.config} has changed since the run {folder}: "
            f"their hash is {config.digest()}, but agent.yaml has {used.digest()} and "
            f"scores.json has {signed}; run: {_command(folder, run, devset)}"
        )
    return used, scores


def _command(folder: Path, run: ScoredRun, devset: Path) -> str:
    """Return the command that produces the run of one target."""
    command = (
        f"simulstream-eval --config {run.config} --target {folder.name} --output {run.folder} "
        f"--devset {devset}"
    )
    if load_config(run.config).speech.context is None and (devset / CONTEXTS).is_dir():
        command += " --set speech.context=[]"
    return command


def _claim(output: Path) -> Bundle:
    """Make ``output`` an empty folder; only a bundle may be overwritten."""
    bundle = Bundle(output)
    if output.exists():
        if not output.is_dir():
            raise SubmissionError(f"{output} is a file; choose another --output")
        if any(output.iterdir()) and not bundle.facts.is_file():
            raise SubmissionError(
                f"{output} is neither empty nor a bundle; choose another --output, or empty it"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True)
    return bundle
