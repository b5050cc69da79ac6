"""Stream runs on a cluster with one job per talk; join the logs in the order of the talks."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from alignatt_agent.cluster.connection import ClusterOptions, joined
from alignatt_agent.cluster.jobs import Job, JobFailedError
from alignatt_agent.evaluation.devset import Talk
from alignatt_agent.evaluation.plan import ASKED, DEVICES, EvalRun
from alignatt_agent.evaluation.run_files import RunFiles, write_json
from alignatt_agent.evaluation.stream import announce, prepare, report_failure, stream
from alignatt_agent.machine.device import device

if TYPE_CHECKING:
    from alignatt_agent.cluster.workers import Workers

LOGS = ("metrics", "records", "clock", "log")
"""Files of ``RunFiles`` that streaming writes."""


@dataclass(frozen=True, slots=True)
class TalkResult:
    """One streamed talk: its file stem, the device, the contents of ``LOGS``, and the models."""

    talk: str
    device: str
    logs: dict[str, str]
    models: dict[str, str]


def stream_on_cluster(runs: Sequence[EvalRun], cluster: ClusterOptions, paced: bool) -> bool:
    """Join a cluster and stream prepared runs; return whether all are complete."""
    announce(runs)
    with joined(cluster.address):
        from alignatt_agent.cluster.workers import Workers  # imports Ray, which is an extra

        jobs = len(runs) * len(runs[0].devset.talks)
        with Workers(cluster, jobs, runs[0].agent_class.shutdown) as workers:
            try:
                stream_talks(workers, runs, partial(stream_talk, paced=paced))
            except JobFailedError:
                return False
    return True


def stream_talk(run: EvalRun, recording: bytes, paced: bool = False) -> TalkResult:
    """Stream the WAV file ``recording`` of a run with one talk; keep the engines loaded."""
    (talk,) = run.devset.talks
    # The job carries the recording, because workers need not share a file system.
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / talk.wav.name
        wav.write_bytes(recording)
        devset = replace(run.devset, talks=(replace(talk, wav=wav),))
        here = replace(run, devset=devset, files=RunFiles(Path(folder) / run.target))
        prepare(here)
        stream(here, paced, progress=False)
        logs: dict[str, str] = {}
        for name in LOGS:
            path: Path = getattr(here.files, name)
            if path.is_file():
                logs[name] = path.read_text(encoding="utf-8")
    assert run.choice is not None
    # The models that fit on this worker's GPU.
    models = run.agent_class.runtime.resolve(run.choice.config).identities()
    return TalkResult(talk.name, device(), logs, models)


def stream_talks(
    runner: Workers,
    runs: Sequence[EvalRun],
    function: Callable[[EvalRun, bytes], TalkResult] = stream_talk,
    by_talk: bool = False,
) -> None:
    """Stream prepared runs talk by talk; skip talks that an interrupted call finished.

    Jobs with the same place run on the same worker if possible. The place is the configuration, or
    with ``by_talk`` the talk.

    Raises:
        JobFailedError: a talk failed; finished talks are kept for the next call.
    """
    talks = runs[0].devset.talks
    done = {run.label: _streamed_before(run) for run in runs}
    recordings = {talk.name: runner.share(talk.wav.read_bytes()) for talk in talks}
    jobs: list[Job] = []
    pending: dict[str, tuple[EvalRun, Talk]] = {}
    # In this order, jobs with the same place follow each other.
    for config in dict.fromkeys(run.name for run in runs):
        for talk in talks:
            for run in runs:
                if run.name != config or talk.name in done[run.label]:
                    continue
                label = f"{run.label} {talk.name}"
                pending[label] = (run, talk)
                # Workers stream, but do not score: segments would only make jobs larger.
                devset = replace(run.devset, talks=(talk,), segments=())
                arguments = (replace(run, devset=devset), recordings[talk.name])
                jobs.append(Job(label, function, arguments, talk.name if by_talk else config))
    form = "{desc} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s [{elapsed}{postfix}]"
    seconds = round(sum(talk.seconds for _, talk in pending.values()), 1)
    title = f"{len(runner)} worker{'s' if len(runner) > 1 else ''}"
    with tqdm(total=seconds, desc=title, bar_format=form) as bar:
        try:
            for count, (job, result) in enumerate(runner.results(jobs), 1):
                run, talk = pending[job.name]
                done[run.label][talk.name] = result
                # Each talk is written at once, so that an interrupted call loses none.
                line = {"signature": run.signature, **asdict(result)}
                with run.files.parts.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                bar.set_postfix_str(f"{count}/{len(jobs)} talks, {job.name}", refresh=False)
                # The total is rounded, so the sum of the lengths can exceed it.
                bar.update(min(talk.seconds, seconds - bar.n))
        except JobFailedError as error:
            bar.close()
            run, _ = pending[error.job.name]
            run.files.log.write_text(error.details, encoding="utf-8")
            report_failure(run, error.cause)
            raise
        finally:
            # Also after a failure: targets whose talks are all done need no further call.
            for run in runs:
                if len(done[run.label]) == len(run.devset.talks):
                    _put_together(run, done[run.label])


def _streamed_before(run: EvalRun) -> dict[str, TalkResult]:
    """Return the talks that an interrupted call with the same signature finished."""
    results: dict[str, TalkResult] = {}
    if not run.files.parts.is_file():
        return results
    for text in run.files.parts.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):  # the earlier call was interrupted while writing
            line = json.loads(text)
            if run.signed(line.pop("signature")):
                results[line["talk"]] = TalkResult(**line)
    return results


def _put_together(run: EvalRun, results: Mapping[str, TalkResult]) -> None:
    """Write the logs of a run as a single process would write them."""
    talks = run.devset.talks
    for name in LOGS:
        texts: list[str] = []
        for number, talk in enumerate(talks):
            text = results[talk.name].logs.get(name)
            if text is None:  # only paced runs write a clock
                continue
            if name == "metrics":
                text = _renumbered(text, number, talk)
            texts.append(text)
        if texts:
            path: Path = getattr(run.files, name)
            path.write_text("".join(texts), encoding="utf-8")
    devices = {talk.name: results[talk.name].device for talk in talks}
    signature = {**run.signature, "device": _joined(devices.values()), DEVICES: devices}
    planned_models = run.signature.get("models", {})
    models: dict[str, str] = {}
    for role, planned in planned_models.items():
        models[role] = _joined(result.models.get(role, planned) for result in results.values())
    if models != planned_models:
        signature["models"] = models
        signature[ASKED] = {"models": planned_models}
    write_json(run.files.finished, signature)
    run.files.parts.unlink(missing_ok=True)


def _joined(names: Iterable[str]) -> str:
    return "; ".join(sorted(set(names)))


def _renumbered(metrics: str, number: int, talk: Talk) -> str:
    """Return the log of a talk, renumbered by the talk's position in the list of talks."""
    lines = []
    for text in metrics.removesuffix("\n").split("\n"):
        line = json.loads(text)
        if "id" in line:
            line["id"] = number
        elif number:
            continue  # the loading time of the models is written only once
        if "metadata" in line:
            line["metadata"]["wav_name"] = str(talk.wav)
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)
