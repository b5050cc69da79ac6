"""Scores of one target language by the official scorer, OmniSTEval, in a process of its own."""

from __future__ import annotations

import csv
import math
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import Format, Log
from alignatt_agent.evaluation.results import Scores, ScoringError
from alignatt_agent.evaluation.run_files import RunFiles

_TSV_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "longyaal_cu_ms": "LongYAAL (CU)",
    "longyaal_ca_ms": "LongYAAL (CA)",
}
_STREAM_LAAL = re.compile(
    r"LatencyScores\(ideal_latency=([-\d.e+]+), computational_aware_latency=([-\d.e+]+)\)"
)
_SWALLOWED = ("scoring failed", "Failed to compute")
"""OmniSTEval reports these errors on its log only, and prints 0 or leaves a score out."""


def omnisteval_arguments(
    files: RunFiles,
    devset: DevSet,
    target: str,
    hypothesis_format: Format | Literal["text"] = "simulstream",
    references: Path | None = None,
    hypothesis: Path | None = None,
    config: Path | None = None,
) -> list[str]:
    """Arguments of the ``omnisteval`` command line.

    Args:
        files: of the run.
        devset: what was streamed.
        target: code of the language of the output.
        hypothesis_format: format of the log.
        references: other references than those of the target.
        hypothesis: another file than the log of the run.
        config: another file than the configuration of the run.
    """
    spaced = language(target).spaced
    unit = ["--word_level" if spaced else "--char_level", "--lang", target]
    configured = ["--simulstream_config_file", str(config or files.config)]
    return [
        "longform",
        *("--speech_segmentation", str(devset.segmentation)),
        *("--ref_sentences_file", str(references or devset.references[target])),
        *("--hypothesis_file", str(hypothesis or files.metrics)),
        *("--hypothesis_format", hypothesis_format),
        *(configured if hypothesis_format == "simulstream" else []),
        *unit,
        *("--bleu_tokenizer", bleu_tokenizer(target)),
        *("--output_folder", str(files.folder)),
    ]


def omnisteval_command(
    files: RunFiles, devset: DevSet, target: str, hypothesis_format: Format = "simulstream"
) -> str:
    """The equivalent command for a shell."""
    arguments = omnisteval_arguments(files, devset, target, hypothesis_format)
    return shlex.join(["omnisteval", *arguments])


def check_scorer(targets: Sequence[str]) -> None:
    """Refuse to start a run that could not be scored.

    Raises:
        ScoringError: a program that the scorer calls is missing.
    """
    if shutil.which("perl") is None and any(language(target).spaced for target in targets):
        raise ScoringError(
            "OmniSTEval tokenises with the Moses scripts, which need `perl` in the PATH; install it"
        )


def score(files: RunFiles, devset: DevSet, target: str, log: Log) -> Scores:
    """Score a finished run; OmniSTEval's own files go to the same folder.

    Args:
        files: of the run.
        devset: what was streamed.
        target: code of the language of the output.
        log: the metrics log of the run, without faults.

    Raises:
        ScoringError: OmniSTEval failed, or its result is not a number.
    """
    values = run_omnisteval(omnisteval_arguments(files, devset, target, log.format), files.folder)
    wanted = dict(_TSV_NAMES)
    if log.format == "jsonl" and _TSV_NAMES["longyaal_ca_ms"] not in values:
        del wanted["longyaal_ca_ms"]
    try:
        numbers = {key: float(values[name]) for key, name in wanted.items()}
    except (KeyError, ValueError) as error:
        raise ScoringError(f"{files.folder} lacks a score: {error}; it has {values}") from None
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise ScoringError(f"{files.folder}: {name} is {value}: the output cannot be scored")
    heard = sum(talk.heard_s for talk in log.talks)
    return Scores(
        bleu=numbers["bleu"],
        chrf=numbers["chrf"],
        longyaal_cu_ms=numbers["longyaal_cu_ms"],
        longyaal_ca_ms=numbers.get("longyaal_ca_ms"),
        rtf=round(sum(talk.computed_s for talk in log.talks) / heard, 4) if heard else None,
    )


def run_omnisteval(arguments: Sequence[str], folder: Path) -> dict[str, str]:
    """Run OmniSTEval and return its scores as it printed them, by its own names.

    Args:
        arguments: of its command line.
        folder: its output folder.

    Raises:
        ScoringError: it failed, or hid an error behind a zero.
    """
    table = folder / "scores.tsv"
    table.unlink(missing_ok=True)
    # A process of its own: OmniSTEval forks a pool, which is unsafe next to a loaded engine.
    result = subprocess.run(
        [sys.executable, "-m", "alignatt_agent.evaluation.omnisteval_large", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    hidden = [
        line for line in result.stderr.splitlines() if any(text in line for text in _SWALLOWED)
    ]
    if result.returncode != 0 or hidden or not table.is_file():
        tail = "\n".join(hidden or result.stderr.strip().splitlines()[-8:])
        raise ScoringError(
            f"OmniSTEval ended with exit status {result.returncode}:\n{tail}\n"
            f"repeat it with: {shlex.join(['omnisteval', *arguments])}"
        )
    with table.open(encoding="utf-8", newline="") as stream:
        return {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}


def stream_laal(files: RunFiles, devset: DevSet, target: str) -> dict[str, float]:
    """Measure StreamLAAL, which IWSLT reports beside LongYAAL, by Simulstream's own scorer.

    Args:
        files: of a run with Simulstream's log.
        devset: what was streamed.
        target: code of the language of the output.

    Returns:
        ``stream_laal_cu_ms`` and ``stream_laal_ca_ms``.

    Raises:
        ScoringError: the scorer failed.
    """
    command = [
        *(sys.executable, "-m", "alignatt_agent.evaluation.detokenizer"),
        *("--eval-config", str(files.config), "--log-file", str(files.metrics)),
        *("--reference", str(devset.references[target])),
        *("--audio-definition", str(devset.segmentation)),
        *("--latency-unit", language(target).latency_unit, "--scorer", "stream_laal"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _STREAM_LAAL.search(result.stdout)
    if result.returncode != 0 or found is None:
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-6:])
        raise ScoringError(f"StreamLAAL failed (exit status {result.returncode}):\n{tail}")
    ideal, aware = (1000 * float(text) for text in found.groups())
    return {"stream_laal_cu_ms": round(ideal, 4), "stream_laal_ca_ms": round(aware, 4)}


def bleu_tokenizer(target: str) -> str:
    """SacreBLEU's tokenizer for a language."""
    if language(target).spaced:
        return "13a"
    return {"zh": "zh"}.get(target, "char")
