"""Build a bundle from scored runs."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import read_lines
from alignatt_agent.config.speech import CONTEXTS
from alignatt_agent.evaluation.agent_choice import load_with_contexts
from alignatt_agent.evaluation.devset import SEGMENTATION, DevSetError, load_devset, wav_seconds
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.bundle import (
    RUN_FILES,
    Bundle,
    Facts,
    SubmissionError,
    SystemName,
    evaluation_yaml,
    proxy_yaml,
    write_checksums,
)
from alignatt_agent.submission.image import write_image, write_readmes


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run of ``simulstream-eval`` with a folder for each target."""

    config: str
    folder: Path
    regime: str


def pair_runs(
    configs: Sequence[str], folders: Sequence[Path], regimes: Sequence[str] | None
) -> list[ScoredRun]:
    """Pair configurations, runs and regimes by position; ``micro-low`` has the regime ``low``."""
    if regimes is None:
        regimes = [Path(config).stem.rpartition("-")[2] for config in configs]
    if not len(configs) == len(folders) == len(regimes):
        raise SubmissionError(
            f"{len(configs)} configurations, {len(folders)} runs and {len(regimes)} regimes: give "
            f"one run folder and one regime for each configuration, in the same order"
        )
    for config, regime in zip(configs, regimes, strict=True):
        if regime not in REGIMES:
            raise SubmissionError(
                f"the regime of {config} is not known: add --regimes with one of "
                f"{', '.join(REGIMES)} for each configuration"
            )
    if len(set(regimes)) != len(regimes):
        raise SubmissionError(
            f"two configurations for one regime ({', '.join(regimes)}): name one configuration "
            f"for each regime"
        )
    return [ScoredRun(*item) for item in zip(configs, folders, regimes, strict=True)]


def build_bundle(
    runs: Sequence[ScoredRun],
    targets: Sequence[str],
    output: Path,
    devset: Path | None,
    team: str,
    contact: str,
) -> int:
    """Build a bundle and return its number of files; an earlier one in the folder is replaced.

    ``devset`` defaults to the dev set that contains the recordings of the runs.
    """
    codes = list(dict.fromkeys(language(name).code for name in targets))
    for run in runs:
        for code in codes:
            folder = run.folder / code
            missing = [name for name in RUN_FILES if not (folder / name).is_file()]
            if missing:
                raise SubmissionError(
                    f"{folder} is not a scored run: it lacks {', '.join(missing)}; make one: "
                    f"{_command(folder, run, 'DIR')}"
                )
    recordings = _streamed(runs[0].folder / codes[0] / "wavs.txt")
    root = devset or _devset_of(recordings[0])
    loaded = load_devset(root, codes, runs[0].folder, audio=False)
    sources: dict[SystemName, Path] = {}
    configs: dict[SystemName, AgentConfig] = {}
    scores: dict[SystemName, dict[str, Any]] = {}
    for run in runs:
        config = load_with_contexts(run.config, root / CONTEXTS)
        for code in codes:
            name = SystemName(run.regime, config.source_language, code)
            sources[name] = run.folder / code
            configs[name], scores[name] = _read_run(sources[name], config, run, root)
    lengths = {wav.stem: wav_seconds(wav) for wav in recordings}
    facts = Facts(team=team, contact=contact, systems=[*map(str, sources)], talks=lengths)
    bundle = _claim(output)
    for name, source in sources.items():
        files = bundle.system(name)
        files.folder.mkdir(parents=True)
        for item in RUN_FILES:
            shutil.copyfile(source / item, files.folder / item)
        files.proxy.write_text(proxy_yaml(name.target), encoding="utf-8")
        files.evaluation.write_text(evaluation_yaml(name.target), encoding="utf-8")
    (bundle.devset / "ref").mkdir(parents=True)
    # References of other languages help to identify the language of an output.
    for file in (*(root / "ref").glob("*.txt"), *loaded.references.values()):
        shutil.copyfile(file, bundle.devset / "ref" / file.name)
    shutil.copyfile(loaded.segmentation, bundle.devset / SEGMENTATION)
    bundle.facts.write_text(facts.model_dump_json(indent=2) + "\n", encoding="utf-8")
    write_readmes(bundle, facts, scores, loaded)
    write_image(bundle, configs)
    return write_checksums(bundle)


def _read_run(
    folder: Path, config: AgentConfig, run: ScoredRun, devset: Path
) -> tuple[AgentConfig, dict[str, Any]]:
    """Return the resolved configuration and the scores of one target of a run."""
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    used = load_config(str(folder / "agent.yaml"))
    signed = scores.get("signature", {}).get("config_sha256")
    if not used.digest() == config.digest() == signed:
        raise SubmissionError(
            f"{folder} was not run with {run.config} as it is now, contexts of {devset} included: "
            f"they have the hash {config.digest()}, agent.yaml {used.digest()}, scores.json "
            f"{signed}; run it again: {_command(folder, run, devset)}"
        )
    return used, scores


def _command(folder: Path, run: ScoredRun, devset: Path | str) -> str:
    """Return the command that makes the run of one target."""
    return (
        f"simulstream-eval --config {run.config} --target {folder.name} --output {run.folder} "
        f"--devset {devset}"
    )


def _claim(output: Path) -> Bundle:
    """Make ``output`` an empty folder; only a bundle may be overwritten."""
    bundle = Bundle(output)
    if output.exists():
        if not output.is_dir():
            raise SubmissionError(f"{output} is a file; name another --output")
        if any(output.iterdir()) and not bundle.facts.is_file():
            raise SubmissionError(
                f"{output} is not empty and not a bundle; name another --output or empty it"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True)
    return bundle


def _streamed(wavs: Path) -> list[Path]:
    """Return the recordings that a run streamed, from its list of them."""
    lines = read_lines(wavs) if wavs.is_file() else []
    paths = [Path(line.strip()) for line in lines if line.strip()]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        what = f"lists {missing[0]}, which does not exist" if missing else "names no recording"
        raise DevSetError(
            f"{wavs} {what}: the bundle needs the length of every recording; run simulstream-eval "
            f"again, or put the recordings back"
        )
    return paths


def _devset_of(recording: Path) -> Path:
    """Return the dev set that contains a recording."""
    for folder in recording.parents:
        if (folder / SEGMENTATION).is_file():
            return folder
    raise DevSetError(f"no {SEGMENTATION} above {recording}; name the dev set with --devset DIR")
