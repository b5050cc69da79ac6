"""The runs of an evaluation on a cluster: a talk of a target is a job, a run is its talks in order.

Logs are those of a local run: what a worker writes is put together as if one process had streamed
all talks, and scored here.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ray
from tqdm import tqdm

from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.workers import Job, JobFailedError, Workers
from alignatt_agent.config.machine import device
from alignatt_agent.evaluation.devset import DevSet, Talk
from alignatt_agent.evaluation.plan import Run
from alignatt_agent.evaluation.resolve import AgentChoice
from alignatt_agent.evaluation.run import announce, finish, logging_to, report_failure
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.signature import DEVICES

LOGS = ("metrics", "records", "clock", "log")
"""Files of ``RunFiles`` that streaming writes."""


@dataclass(frozen=True, slots=True)
class Part:
    """One talk of a run, streamed.

    Attributes:
        talk: stem of the recording.
        device: what streamed it.
        logs: content of the files that it wrote, by their names in ``LOGS``.
    """

    talk: str
    device: str
    logs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Errand:
    """What a worker needs to know of a run.

    Attributes:
        cls: the speech processor.
        name: of the configuration.
        config: its resolved YAML.
        target: code of the language of the output.
        source: code of the spoken language.
        paced: whether the audio is delivered by the clock.
    """

    cls: type[Any]
    name: str
    config: str
    target: str
    source: str
    paced: bool


def stream_talk(errand: Errand, talk: Talk, recording: bytes, traced: bool = False) -> Part:
    """Stream one talk in this process; engines stay for the next one.

    Args:
        errand: of which run.
        talk: which.
        recording: its WAV file.
        traced: see ``harness.run_stream``.

    Raises:
        EngineError: the agent reported an error that the harness swallowed.
    """
    # Importing the harness configures logging.
    from alignatt_agent.evaluation.harness import run_stream

    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / talk.wav.name
        wav.write_bytes(recording)
        files = RunFiles(Path(folder) / errand.target)
        files.clean()
        files.config.write_text(errand.config, encoding="utf-8")
        files.wavs.write_text(f"{wav}\n", encoding="utf-8")
        choice = AgentChoice(errand.cls, errand.name, None, {})
        devset = DevSet(Path(folder), (Talk(wav, talk.seconds),), {}, ())
        where = choice, devset, files, errand.target, errand.source
        with logging_to(files.log):
            run_stream(*where, errand.paced, traced)
        logs = {
            name: path.read_text(encoding="utf-8")
            for name in LOGS
            if (path := getattr(files, name)).is_file()
        }
    return Part(talk.name, device(), logs)


def stream_all(runs: Sequence[Run], cluster: ClusterOptions, paced: bool = False) -> bool:
    """Stream prepared runs on a cluster that is joined for them.

    Returns:
        Whether all were streamed to their end.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    announce(runs)
    last = getattr(runs[0].choice_cls, "shutdown", lambda: None)
    with joined(cluster.address), Workers(cluster, _count(runs), last) as workers:
        return stream_on(workers, runs, paced)


def stream_on(
    workers: Workers,
    runs: Sequence[Run],
    paced: bool = False,
    function: Callable[[Errand, Talk, bytes], Part] | None = None,
) -> bool:
    """Stream prepared runs; the first failure ends it, and what was streamed stays.

    Args:
        workers: who streams.
        runs: what is streamed.
        paced: deliver the audio by the clock.
        function: streams one talk in a worker; default ``stream_talk``.

    Returns:
        Whether all were streamed to their end.
    """
    talks = runs[0].devset.talks
    parts = {run.label: _streamed_before(run) for run in runs}
    missing = {
        f"{run.label} {talk.name}": (run, talk)
        for name in dict.fromkeys(run.name for run in runs)
        for talk in talks
        for run in runs
        if run.name == name and talk.name not in parts[run.label]
    }
    recordings = {talk.name: ray.put(talk.wav.read_bytes()) for talk in talks}
    jobs = [
        Job(
            name,
            function or stream_talk,
            (_errand(run, paced), talk, recordings[talk.name]),
            place=talk.name if function else f"{run.name} {talk.name}",
        )
        for name, (run, talk) in missing.items()
    ]
    form = "{desc} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s [{elapsed}{postfix}]"
    title = f"{len(workers)} worker{'s' if len(workers) > 1 else ''}"
    seconds = round(sum(talk.seconds for _, talk in missing.values()), 1)
    with tqdm(total=seconds, desc=title, bar_format=form) as bar:
        try:
            for done, (job, part) in enumerate(workers.results(jobs), 1):
                run, talk = missing[job.name]
                parts[run.label][talk.name] = part
                with run.files.parts.open("a", encoding="utf-8") as stream:
                    line = {"signature": run.signature, **asdict(part)}
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                bar.set_postfix_str(f"{done}/{len(jobs)} talks, {job.name}", refresh=False)
                bar.update(min(talk.seconds, seconds - bar.n))
        except JobFailedError as error:
            bar.close()
            run, _ = missing[error.job.name]
            run.files.log.write_text(error.details, encoding="utf-8")
            report_failure(run, error.cause)
    finished = [_finish(run, parts[run.label]) for run in runs]
    return all(finished)


def _count(runs: Sequence[Run]) -> int:
    """Return how many workers would have anything to do."""
    return len(runs) * len(runs[0].devset.talks)


def _streamed_before(run: Run) -> dict[str, Part]:
    """Return the talks that an interrupted call with an equal signature streamed."""
    found = {}
    if run.files.parts.is_file():
        for text in run.files.parts.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # it was interrupted while writing
                line = json.loads(text)
                if run.signed(line.pop("signature")):
                    found[line["talk"]] = Part(**line)
    return found


def _errand(run: Run, paced: bool) -> Errand:
    return Errand(
        cls=run.choice_cls,
        name=run.name,
        config=run.files.config.read_text(encoding="utf-8"),
        target=run.target,
        source=run.source,
        paced=paced,
    )


def _finish(run: Run, parts: Mapping[str, Part]) -> bool:
    """Put the talks of a run together as one process would have logged them."""
    talks = run.devset.talks
    if any(talk.name not in parts for talk in talks):
        return False
    done = [parts[talk.name] for talk in talks]
    for name in LOGS:
        texts = [part.logs[name] for part in done if name in part.logs]
        if name == "metrics":
            texts = [
                _renumbered(text, number, talk)
                for number, (text, talk) in enumerate(zip(texts, talks, strict=True))
            ]
        if texts:
            path: Path = getattr(run.files, name)
            path.write_text("".join(texts), encoding="utf-8")
    used = {part.talk: part.device for part in done}
    finish(run, {**run.signature, "device": "; ".join(sorted(set(used.values()))), DEVICES: used})
    run.files.parts.unlink(missing_ok=True)
    return True


def _renumbered(metrics: str, number: int, talk: Talk) -> str:
    """Return the log of a talk as that of the talk at a place of a list."""
    lines = []
    for text in metrics.splitlines():
        line = json.loads(text)
        if "id" in line:
            line["id"] = number
        elif number:
            continue  # the time of loading the models, which is written once
        if "metadata" in line:
            line["metadata"]["wav_name"] = str(talk.wav)
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)
