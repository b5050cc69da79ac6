"""Scores of finished runs, whole and by segment, from the same OmniSTEval command as always."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.config.languages import language
from alignatt_agent.curves.sweep import Run
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.results import ScoringError
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import omnisteval_arguments
from alignatt_agent.evaluation.statistics import SegmentScores

RESULT = "segments.json"


def score_all(runs: Sequence[Run], devset: DevSet, jobs: Path) -> None:
    """Score the runs whose log has no result yet, all in one process.

    Args:
        runs: streamed runs.
        devset: their dev set.
        jobs: file for the list of jobs.

    Raises:
        ScoringError: OmniSTEval failed; results that are complete stay.
    """
    missing = [job for run in runs if (job := _job(run, devset)) is not None]
    if not missing:
        return
    jobs.write_text(json.dumps(missing), encoding="utf-8")
    command = [sys.executable, "-m", "alignatt_agent.curves.score_logs", str(jobs)]
    result = subprocess.run(command, check=False)
    if result.returncode:
        raise ScoringError(
            f"scoring ended with exit status {result.returncode}; its messages are above, the "
            f"jobs in {jobs}"
        )


def load_scores(run: Run) -> SegmentScores:
    """Read the result of a scored run.

    Raises:
        ScoringError: the sums of the segments are not the scores that OmniSTEval printed.
    """
    found = json.loads((run.folder / RESULT).read_text(encoding="utf-8"))
    parts = (np.asarray(found[key], np.float64) for key in ("bleu", "chrf", "cu_ms", "ca_ms"))
    scores = SegmentScores(*parts)
    ours = scores.corpus()
    for name, value in found["scores"].items():
        if abs(ours[name] - value) > 1e-2:
            raise ScoringError(
                f"{run.folder}: {name} is {value} by OmniSTEval and {ours[name]} by segments"
            )
    return scores


def _job(run: Run, devset: DevSet) -> dict[str, Any] | None:
    log = hashlib.sha256(run.log.read_bytes()).hexdigest()
    result = run.folder / RESULT
    if result.is_file() and json.loads(result.read_text(encoding="utf-8"))["log"] == log:
        return None
    refuse(parse_log(run.log), devset, language(run.target).latency_unit)
    arguments = omnisteval_arguments(RunFiles(run.folder), devset, run.target)
    return {
        "log": log,
        "arguments": arguments,
        "folder": str(run.folder),
        "result": str(result),
        "latency_unit": language(run.target).latency_unit,
        "bleu_tokenizer": arguments[arguments.index("--bleu_tokenizer") + 1],
    }
