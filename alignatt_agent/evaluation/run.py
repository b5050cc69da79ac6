"""Evaluation runs: planned and checked before a model is loaded, then streamed and scored."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.config.agent_config import ConfigError, parse_overrides
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import resolve
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.outcome import Job, Options, finish
from alignatt_agent.evaluation.resolve import AgentChoice, choose_agent
from alignatt_agent.evaluation.results import read_ceilings
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import check_scorer, omnisteval_command
from alignatt_agent.evaluation.signature import sign

LOGGER = logging.getLogger(__name__)

State = Literal["fresh", "streamed", "scored"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that passed every check which needs no model.

    Attributes:
        choice: agent and configuration.
        devset: checked dev set.
        source: code of the spoken language.
        targets: codes of the target languages.
        output: folder of the run; each target has a folder below it.
    """

    choice: AgentChoice
    devset: DevSet
    source: str
    targets: tuple[str, ...]
    output: Path

    def files(self, target: str) -> RunFiles:
        """Files of one target."""
        return RunFiles(self.output / target)


def plan(
    agent: str,
    config: str | None,
    overrides: Sequence[str],
    source: str | None,
    targets: Sequence[str],
    devset: Path,
    output: Path,
    audio: Path | None = None,
) -> Plan:
    """Check configuration, head sets, checkpoints, dev set and scorer.

    Args:
        agent: entry point, dotted class or YAML path.
        config: name or path of a configuration.
        overrides: ``KEY=VALUE`` items.
        source: spoken language; ``None`` for the configured one.
        targets: target languages, codes or names.
        devset: directory of the dev set.
        output: folder to write to.
        audio: folder for recordings that have to be converted; default ``audio`` in ``output``.

    Raises:
        ConfigError: the agent or its configuration is not valid.
        HeadSetError: a direction has no head set, or one that belongs to something else.
        CheckpointError: a checkpoint is missing.
        DevSetError: the dev set cannot be evaluated.
        LanguageError: a language is unknown.
        ScoringError: the scorer cannot run here.
    """
    codes = tuple(dict.fromkeys(language(name).code for name in targets))
    choice = choose_agent(agent, config, parse_overrides(overrides))
    spoken = language(source).code if source else None
    if choice.config is not None:
        choice = choice.with_source(spoken or choice.config.source_language)
        assert choice.config is not None
        spoken = choice.config.source_language
        resolve(choice.config, codes)
    spoken = spoken or "en"
    checked = load_devset(devset, codes, audio or output / "audio", spoken)
    check_scorer(codes)
    return Plan(choice, checked, spoken, codes, output)


def plan_all(configs: Sequence[str | None], output: Path, **arguments: Any) -> list[Plan]:
    """Plan several configurations; each gets a folder of its own below ``output``.

    Raises:
        ConfigError: two configurations would write to the same folder, and as ``plan``.
    """
    if len(configs) < 2:
        return [plan(config=config, output=output, **arguments) for config in configs or [None]]
    names = [Path(config or "").stem for config in configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--config names {', '.join(twice)} twice; results would overwrite")
    return [
        plan(config=config, output=output / name, audio=output / "audio", **arguments)
        for config, name in zip(configs, names, strict=True)
    ]


def evaluate(runs: Plan | Sequence[Plan], options: Options | None = None) -> int:
    """Stream and score every target of every configuration; print the table.

    Returns:
        Exit status: 0 when every target was scored, else 1.

    Raises:
        ScoringError: the off-line rows do not belong to these runs; nothing was started.
    """
    plans = [runs] if isinstance(runs, Plan) else list(runs)
    options = options or Options()
    for note in dict.fromkeys(note for run in plans for note in run.devset.notes):
        print(f"note: {note}", file=sys.stderr)
    jobs = [_job(run, target, options) for run in plans for target in run.targets]
    if options.offline is not None:
        read_ceilings(options.offline, [job.signature for job in jobs])
    states = [_state(job) if options.resume else "fresh" for job in jobs]
    for job, state in zip(jobs, states, strict=True):
        if state == "fresh":  # all at first: no score of an earlier run may outlive a failure
            job.files.clean()
            yaml_text = job.choice.resolved_yaml(job.target)
            job.files.config.write_text(yaml_text, encoding="utf-8")
            wavs = "".join(f"{talk.wav}\n" for talk in job.devset.talks)
            job.files.wavs.write_text(wavs, encoding="utf-8")
        else:
            print(f"{job.label}: {state} before, with an equal signature")
    status = _stream_all(plans, jobs, states, options)
    done = [job for job in jobs if job.files.finished.is_file()]
    root = plans[0].output if len(plans) == 1 else plans[0].output.parent
    if done:
        status = max(status, finish(done, options, root))
        print_commands(plans)
    return status


def print_commands(runs: Sequence[Plan]) -> None:
    """Print the official commands that do the same without ours."""
    print("\nthe same with the official commands:")
    for run in runs:
        for target in run.targets:
            files = run.files(target)
            print(f"  {files.inference_command(target, run.source)}")
            print(f"  {omnisteval_command(files, run.devset, target)}")


def _job(run: Plan, target: str, options: Options) -> Job:
    return Job(
        choice=run.choice,
        devset=run.devset,
        source=run.source,
        target=target,
        files=run.files(target),
        signature=sign(run.choice, run.devset, target, "real" if options.paced else "no"),
    )


def _state(job: Job) -> State:
    """Tell how far an earlier run with the same signature came."""
    files = job.files
    if not files.metrics.is_file() or _read(files.finished) != job.signature:
        return "fresh"
    return "scored" if _read(files.scores).get("signature") == job.signature else "streamed"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _stream_all(
    plans: Sequence[Plan], jobs: Sequence[Job], states: Sequence[State], options: Options
) -> int:
    waiting = [job for job, state in zip(jobs, states, strict=True) if state == "fresh"]
    if not waiting:
        return 0
    devset = plans[0].devset
    print(
        f"{', '.join(dict.fromkeys(run.choice.name for run in plans))}: {plans[0].source} -> "
        f"{' '.join(dict.fromkeys(job.target for job in waiting))}, {len(devset.talks)} talks, "
        f"{devset.seconds:.0f} s of speech, {len(devset.segments)} segments; loading models",
        flush=True,
    )
    try:
        for job in waiting:
            try:
                _stream(job, options)
            except Exception as error:
                print(
                    f"simulstream-eval: {job.label}: {type(error).__name__}: {error}\n"
                    f"  details: {job.files.log}",
                    file=sys.stderr,
                )
                return 1
    finally:
        for cls in dict.fromkeys(run.choice.cls for run in plans):
            shutdown = getattr(cls, "shutdown", None)
            if shutdown is not None:
                shutdown()
    return 0


def _stream(job: Job, options: Options) -> None:
    # Importing the harness configures logging; not before it is needed.
    from alignatt_agent.evaluation.harness import run_stream

    files = job.files
    with _logging_to(files.log):
        try:
            run_stream(job.choice, job.devset, files, job.target, job.source, options.paced)
        except Exception:
            LOGGER.exception("the run of %s failed", job.label)
            raise
    text = json.dumps(job.signature, indent=2, ensure_ascii=False)
    files.finished.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send all messages to a file and warnings to the terminal."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    file = logging.FileHandler(path, mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    terminal.addFilter(lambda record: record.name != LOGGER.name)
    root.handlers[:] = [file, terminal]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        file.close()
