"""Scores of one target language by the official scorer, OmniSTEval, in a process of its own."""

from __future__ import annotations

import csv
import json
import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import Format, LogError, log_format, read_log
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.types import AlignAttError

_TSV_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "longyaal_cu_ms": "LongYAAL (CU)",
    "longyaal_ca_ms": "LongYAAL (CA)",
}
_SWALLOWED = ("scoring failed", "Failed to compute")
"""OmniSTEval reports these errors on its log only, and prints 0 or leaves a score out."""


class ScoringError(AlignAttError, RuntimeError):
    """The scorer failed or a log cannot be scored."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one target language.

    Attributes:
        bleu: sacreBLEU over the resegmented output (tokenizer ``zh`` for Chinese).
        chrf: chrF2.
        longyaal_cu_ms: computation-unaware LongYAAL.
        longyaal_ca_ms: computation-aware LongYAAL as Simulstream defines it: backlog of earlier
            chunks does not count. ``None`` when a foreign log has no computation times.
        rtf: seconds of computation per second of audio; ``None`` when the log does not tell.
    """

    bleu: float
    chrf: float
    longyaal_cu_ms: float
    longyaal_ca_ms: float | None
    rtf: float | None


def omnisteval_arguments(
    files: RunFiles,
    devset: DevSet,
    target: str,
    hypothesis_format: Format | Literal["text"] = "simulstream",
    references: Path | None = None,
    hypothesis: Path | None = None,
) -> list[str]:
    """Arguments of the ``omnisteval`` command line.

    Args:
        files: of the run.
        devset: what was streamed.
        target: code of the language of the output.
        hypothesis_format: format of the log.
        references: other references than those of the target.
        hypothesis: another file than the log of the run.
    """
    spaced = language(target).spaced
    unit = ["--word_level" if spaced else "--char_level", "--lang", target]
    config = ["--simulstream_config_file", str(files.config)]
    return [
        "longform",
        *("--speech_segmentation", str(devset.segmentation)),
        *("--ref_sentences_file", str(references or devset.references[target])),
        *("--hypothesis_file", str(hypothesis or files.metrics)),
        *("--hypothesis_format", hypothesis_format),
        *(config if hypothesis_format == "simulstream" else []),
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


def score(files: RunFiles, devset: DevSet, target: str) -> Scores:
    """Score a finished run; OmniSTEval's own files go to the same folder.

    Raises:
        ScoringError: OmniSTEval failed, or its result is not a number.
    """
    try:
        found = log_format(files.metrics)
    except LogError as error:
        raise ScoringError(str(error)) from None
    rtf = None
    if found == "simulstream":
        rtf = round(real_time_factor(files.metrics, len(devset.talks)), 4)
    values = run_omnisteval(omnisteval_arguments(files, devset, target, found), files.folder)
    wanted = dict(_TSV_NAMES)
    if found == "jsonl" and _TSV_NAMES["longyaal_ca_ms"] not in values:
        del wanted["longyaal_ca_ms"]
    try:
        numbers = {key: float(values[name]) for key, name in wanted.items()}
    except (KeyError, ValueError) as error:
        raise ScoringError(f"{files.folder} lacks a score: {error}; it has {values}") from None
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise ScoringError(f"{files.folder}: {name} is {value}: the output cannot be scored")
    return Scores(
        bleu=numbers["bleu"],
        chrf=numbers["chrf"],
        longyaal_cu_ms=numbers["longyaal_cu_ms"],
        longyaal_ca_ms=numbers.get("longyaal_ca_ms"),
        rtf=rtf,
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


def real_time_factor(metrics: Path, talks: int) -> float:
    """Computation per second of audio, from Simulstream's log.

    Raises:
        ScoringError: the log misses talks or emitted nothing at all.
    """
    try:
        logs = read_log(metrics)
    except LogError as error:
        raise ScoringError(str(error)) from None
    audio = sum(log.heard_s for log in logs)
    heard = sum(bool(log.steps) for log in logs)
    if heard != talks:
        raise ScoringError(f"{metrics} holds {heard} talks, expected {talks}")
    if not any(step.tokens for log in logs for step in log.steps):
        raise ScoringError(f"{metrics}: nothing was emitted for {audio:.0f} s of audio")
    return sum(log.computed_s for log in logs) / audio


def write_scores(
    files: RunFiles,
    scores: Scores,
    signature: Mapping[str, Any],
    measured: Mapping[str, Any] | None = None,
) -> None:
    """Write ``scores.json``: scores, what else was measured, and the signature."""
    content = {**asdict(scores), **(measured or {}), "signature": dict(signature)}
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    (files.folder / "scores.json").write_text(text + "\n", encoding="utf-8")


def bleu_tokenizer(target: str) -> str:
    """SacreBLEU's tokenizer for a language."""
    if language(target).spaced:
        return "13a"
    return {"zh": "zh"}.get(target, "char")
