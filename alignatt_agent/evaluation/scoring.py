"""Scores of one target language by the official scorer, OmniSTEval, in a process of its own."""

from __future__ import annotations

import csv
import json
import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.files import RunFiles
from alignatt_agent.languages import language

_TSV_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "longyaal_cu_ms": "LongYAAL (CU)",
    "longyaal_ca_ms": "LongYAAL (CA)",
}


class ScoringError(RuntimeError):
    """The scorer failed or a log cannot be scored."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one target language.

    Attributes:
        bleu: sacreBLEU over the resegmented output (tokenizer ``zh`` for Chinese).
        chrf: chrF2.
        longyaal_cu_ms: computation-unaware LongYAAL.
        longyaal_ca_ms: computation-aware LongYAAL as Simulstream defines it: backlog of earlier
            chunks does not count.
        rtf: seconds of computation per second of audio.
    """

    bleu: float
    chrf: float
    longyaal_cu_ms: float
    longyaal_ca_ms: float
    rtf: float


def omnisteval_arguments(files: RunFiles, devset: DevSet, target: str) -> list[str]:
    """Arguments of the ``omnisteval`` command line."""
    spaced = language(target).spaced
    unit = ["--word_level", "--lang", target] if spaced else ["--char_level"]
    tokenizer = "13a" if spaced else _bleu_tokenizer(target)
    if not spaced:
        unit += ["--lang", target]
    return [
        "longform",
        *("--speech_segmentation", str(devset.segmentation)),
        *("--ref_sentences_file", str(devset.references[target])),
        *("--hypothesis_file", str(files.metrics)),
        *("--hypothesis_format", "simulstream"),
        *("--simulstream_config_file", str(files.config)),
        *unit,
        *("--bleu_tokenizer", tokenizer),
        *("--output_folder", str(files.folder)),
    ]


def omnisteval_command(files: RunFiles, devset: DevSet, target: str) -> str:
    """The equivalent command for a shell."""
    return shlex.join(["omnisteval", *omnisteval_arguments(files, devset, target)])


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
    rtf = real_time_factor(files.metrics, len(devset.talks))
    # A process of its own: OmniSTEval forks a pool, which is unsafe next to a loaded engine.
    result = subprocess.run(
        [sys.executable, "-m", "omnisteval.cli", *omnisteval_arguments(files, devset, target)],
        capture_output=True,
        text=True,
        check=False,
    )
    table = files.folder / "scores.tsv"
    if result.returncode != 0 or not table.is_file():
        tail = "\n".join(result.stderr.strip().splitlines()[-8:])
        raise ScoringError(
            f"OmniSTEval ended with exit status {result.returncode}:\n{tail}\n"
            f"repeat it with: {omnisteval_command(files, devset, target)}"
        )
    with table.open(encoding="utf-8", newline="") as stream:
        values = {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}
    try:
        numbers = {key: float(values[name]) for key, name in _TSV_NAMES.items()}
    except (KeyError, ValueError) as error:
        raise ScoringError(f"{table} lacks a score: {error}; it holds {values}") from None
    return Scores(**numbers, rtf=round(rtf, 4))


def real_time_factor(metrics: Path, talks: int) -> float:
    """Computation per second of audio, from Simulstream's log.

    Raises:
        ScoringError: the log misses talks or emitted nothing at all.
    """
    heard: dict[Any, float] = {}
    computed, tokens = 0.0, 0
    for text in metrics.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "total_audio_processed" in line:
            heard[line["id"]] = line["total_audio_processed"]
            computed += line["computation_time"]
            tokens += len(line["generated_tokens"])
    audio = sum(heard.values())
    if len(heard) != talks:
        raise ScoringError(f"{metrics} holds {len(heard)} talks, expected {talks}")
    if tokens == 0:
        raise ScoringError(f"{metrics}: nothing was emitted for {audio:.0f} s of audio")
    return computed / audio


def write_scores(files: RunFiles, scores: Scores, signature: dict[str, Any]) -> None:
    """Write ``scores.json``."""
    for name, value in asdict(scores).items():
        if not math.isfinite(value):
            raise ScoringError(f"{name} is {value}: the output cannot be scored")
    content = {**asdict(scores), "signature": signature}
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (files.folder / "scores.json").write_text(text + "\n", encoding="utf-8")


def _bleu_tokenizer(target: str) -> str:
    return {"zh": "zh", "ja": "char"}.get(target, "char")
