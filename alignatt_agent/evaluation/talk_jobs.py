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

        count, shutdown = len(runs) * len(runs[0].devset.talks), runs[0].agent_class.shutdown
        with Workers(cluster, count, shutdown) as workers:
            try:
                stream_talks(workers, runs, partial(stream_talk, paced=paced))
            except JobFailedError:
                return False
    return True


def stream_talk(run: EvalRun, recording: bytes, paced: bool = False) -> TalkResult:
    """Stream the WAV file ``recording`` of a run with one talk; keep the engines loaded."""
    (talk,) = run.devset.talks
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / talk.wav.name
        wav.write_bytes(recording)
        devset = replace(run.devset, talks=(replace(talk, wav=wav),))
        here = replace(run, devset=devset, files=RunFiles(Path(folder) / run.target))
        prepare(here)
        stream(here, paced, progress=False)
        logs = {
            name: path.read_text(encoding="utf-8")
            for name in LOGS
            if (path := getattr(here.files, name)).is_file()
        }
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
    """Stream prepared runs talk by talk; skip talks that an interrupted call finished."""
    done = {run.label: _streamed_before(run) for run in runs}
    missing = {
        f"{run.label} {talk.name}": (run, talk)
        for name in dict.fromkeys(run.name for run in runs)
        for talk in runs[0].devset.talks
        for run in runs
        if run.name == name and talk.name not in done[run.label]
    }
    recordings = {talk.name: runner.share(talk.wav.read_bytes()) for talk in runs[0].devset.talks}
    jobs = []
    for label, (run, talk) in missing.items():
        alone = replace(run, devset=replace(run.devset, talks=(talk,), segments=()))
        place = talk.name if by_talk else run.name
        jobs.append(Job(label, function, (alone, recordings[talk.name]), place))
    form = "{desc} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s [{elapsed}{postfix}]"
    seconds = round(sum(talk.seconds for _, talk in missing.values()), 1)
    title = f"{len(runner)} worker{'s' if len(runner) > 1 else ''}"
    with tqdm(total=seconds, desc=title, bar_format=form) as bar:
        try:
            for count, (job, result) in enumerate(runner.results(jobs), 1):
                run, talk = missing[job.name]
                done[run.label][talk.name] = result
                with run.files.parts.open("a", encoding="utf-8") as file:
                    line = {"signature": run.signature, **asdict(result)}
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                bar.set_postfix_str(f"{count}/{len(jobs)} talks, {job.name}", refresh=False)
                bar.update(min(talk.seconds, seconds - bar.n))
        except JobFailedError as error:
            bar.close()
            run, _ = missing[error.job.name]
            run.files.log.write_text(error.details, encoding="utf-8")
            report_failure(run, error.cause)
            raise
        finally:
            for run in runs:
                if len(done[run.label]) == len(run.devset.talks):
                    _put_together(run, done[run.label])


def _streamed_before(run: EvalRun) -> dict[str, TalkResult]:
    """Return the talks that an interrupted call with the same signature finished."""
    found = {}
    if run.files.parts.is_file():
        for text in run.files.parts.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):  # the earlier call was interrupted while writing
                line = json.loads(text)
                if run.signed(line.pop("signature")):
                    found[line["talk"]] = TalkResult(**line)
    return found


def _put_together(run: EvalRun, results: Mapping[str, TalkResult]) -> None:
    """Write the logs of a run as a single process would write them."""
    talks = run.devset.talks
    done = [results[talk.name] for talk in talks]
    for name in LOGS:
        texts = [result.logs[name] for result in done if name in result.logs]
        if name == "metrics":
            places = enumerate(zip(texts, talks, strict=True))
            texts = [_renumbered(text, number, talk) for number, (text, talk) in places]
        if texts:
            path: Path = getattr(run.files, name)
            path.write_text("".join(texts), encoding="utf-8")
    used = {result.talk: result.device for result in done}
    signature = {**run.signature, "device": _joined(used.values()), DEVICES: used}
    asked = run.signature.get("models", {})
    models = {role: _joined(x.models.get(role, name) for x in done) for role, name in asked.items()}
    if models != asked:
        signature |= {"models": models, ASKED: {"models": asked}}
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
