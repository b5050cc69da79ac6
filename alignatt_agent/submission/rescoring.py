"""Scores of a bundled log, computed again and compared with the ones that are claimed."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import Finding, refuse
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.latency import REGIMES, regime_of
from alignatt_agent.evaluation.log import LogError, parse_log
from alignatt_agent.evaluation.results import Scores, ScoringError
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import score
from alignatt_agent.submission.bundle import SystemFiles, SystemName

COMPARED = ("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms")
TOLERANCE = 1e-3
"""OmniSTEval prints four decimals."""


def rescore(files: SystemFiles, devset: DevSet, target: str) -> Scores:
    """Score a log as the organisers would: with the evaluation YAML of the bundle.

    Raises:
        ScoringError: OmniSTEval refused the log.
    """
    with tempfile.TemporaryDirectory(prefix="alignatt-submission-") as folder:
        run = RunFiles(Path(folder))
        shutil.copyfile(files.metrics, run.metrics)
        shutil.copyfile(files.evaluation, run.config)
        try:
            log = parse_log(run.metrics)
            refuse(log, devset, language(target).latency_unit)
            return score(run, devset, target, log)
        except (LogError, ScoringError) as error:
            # The folder is gone when this is read.
            raise ScoringError(str(error).replace(f"{folder}/", "")) from None


def check_scores(
    files: SystemFiles, where: str, devset: DevSet, name: SystemName, claimed: Mapping[str, Any]
) -> tuple[Scores | None, list[Finding]]:
    """Score a log again, compare, and verify the regime with the new figure."""
    try:
        found = rescore(files, devset, name.target)
    except ScoringError as error:
        fix = "repair what is reported about the log; OmniSTEval has to read it"
        return None, [Finding("scores", where, f"the log cannot be scored: {error}", fix)]
    findings = [
        Finding(
            "scores",
            where,
            f"{key} is {claimed.get(key)} in scores.json, but the log scores {getattr(found, key)}",
            "hand in the log that was scored, or score it again and build again",
        )
        for key in COMPARED
        if not _equal(claimed.get(key), getattr(found, key))
    ]
    return found, findings + check_regime(where, name.regime, found.longyaal_cu_ms)


def check_regime(where: str, regime: str, longyaal_cu_ms: float) -> list[Finding]:
    """Verify that a latency lies in the regime that a system is submitted to."""
    declared = REGIMES[regime]
    margin = declared.margin_ms(longyaal_cu_ms)
    if margin >= 0:
        return []
    seconds = longyaal_cu_ms / 1000
    message = f"LongYAAL CU is {seconds:.3f} s, outside {declared} by {-margin / 1000:.3f} s"
    actual = regime_of(longyaal_cu_ms)
    if longyaal_cu_ms < 0:
        fix = "output ahead of the speech is made up: raise speech.hold_back_ms or min_start_s"
    elif actual is not None:
        fix = f"submit it to the regime {actual.name}, or change chunk_ms and speech.hold_back_ms"
    else:
        fix = "lower chunk_ms, speech.hold_back_ms or min_start_s and run the dev set again"
    return [Finding("regime", where, message, fix)]


def _equal(claimed: Any, found: float) -> bool:
    return isinstance(claimed, int | float) and math.isclose(claimed, found, abs_tol=TOLERANCE)
