"""Score one target language with the official scorer, OmniSTEval, in a separate process."""

import csv
import math
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.latency import regime_of
from alignatt_agent.evaluation.log import Format, Log
from alignatt_agent.evaluation.run_files import RunFiles, read_json, write_json
from alignatt_agent.types import AlignAttError

_TSV_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "longyaal_cu_ms": "LongYAAL (CU)",
    "longyaal_ca_ms": "LongYAAL (CA)",
}
# Simulstream's scorer writes no file; it prints the representation of its result.
_STREAM_LAAL = re.compile(
    r"LatencyScores\(ideal_latency=([-\d.e+]+), computational_aware_latency=([-\d.e+]+)\)"
)
_SWALLOWED = "scoring failed"
"""Text of an error that OmniSTEval only logs before it prints 0."""
_SHARED = {"devset": "dev set", "audio": "recordings", "direction": "direction", "models": "models"}


class ScoringError(AlignAttError, RuntimeError):
    """The scorer failed, or scores cannot be read or compared."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Official scores of one target, including LongYAAL (CU and CA) and the real-time factor.

    ``longyaal_ca_ms`` and ``rtf`` are ``None`` if the log contains no computation times, and
    ``longyaal_cu_ms`` is ``None`` if it contains no delays. LongYAAL is also ``None`` if all words
    were emitted after the end of the recordings.
    """

    bleu: float
    chrf: float
    longyaal_cu_ms: float | None
    longyaal_ca_ms: float | None = None
    rtf: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One scored target of one configuration.

    ``measured`` contains more sections of ``scores.json``. ``signature`` contains all settings that
    the scores depend on.
    """

    config: str
    target: str
    scores: Scores
    measured: Mapping[str, Any]
    signature: Mapping[str, Any]

    @property
    def regime(self) -> str:
        """Latency regime of the shared task, and the distance to its upper limit."""
        if self.scores.longyaal_cu_ms is None:
            return "unknown"
        name, margin = regime_of(self.scores.longyaal_cu_ms)
        if margin < 0:
            return f"outside by {-margin:.0f} ms"
        return f"{name}, {margin:.0f} ms to spare"


def write_result(result: Result, files: RunFiles) -> None:
    """Write ``scores.json``: scores, further measures, and the signature."""
    content = {**asdict(result.scores), **result.measured, "signature": dict(result.signature)}
    write_json(files.scores, content)


def read_result(folder: Path) -> Result:
    """Read the ``scores.json`` of a run.

    Raises:
        ScoringError: the run has no scores, or the file is incomplete.
    """
    content = _read(RunFiles(folder).scores, f"{folder} is not a scored run")
    try:
        values = {field.name: content.pop(field.name) for field in fields(Scores)}
        signature = content.pop("signature")
        # The rest of the file are further measures.
        return Result(
            config=signature["config"],
            target=signature["target"],
            scores=Scores(**values),
            measured=content,
            signature=signature,
        )
    except (KeyError, TypeError) as error:
        raise ScoringError(f"{RunFiles(folder).scores} is incomplete: {error!r}") from None


def read_ceilings(folder: Path, signatures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Read the ``offline.json`` of ``alignatt offline`` for the target of each signature.

    Raises:
        ScoringError: a target is missing, or its models or dev set differ from the signature.
    """
    ceilings: dict[str, dict[str, Any]] = {}
    for signature in signatures:
        target = signature["target"]
        path = folder / target / "offline.json"
        ceiling = _read(path, f"run alignatt offline --target {target} --output {folder}")
        ceiling_signature = ceiling["signature"]
        for key, name in _SHARED.items():
            expected = signature.get(key)
            actual = ceiling_signature.get(key)
            if key in signature and actual != expected:
                raise ScoringError(
                    f"{path} is not comparable with {signature['config']} {target}: its {name} "
                    f"must be {expected}, not {actual}"
                )
        ceilings[target] = ceiling
    return list(ceilings.values())


def _read(path: Path, fix: str) -> dict[str, Any]:
    if content := read_json(path):
        return content
    raise ScoringError(f"{path} does not exist or is incomplete; {fix}")


def omnisteval_arguments(
    files: RunFiles,
    devset: DevSet,
    target: str,
    hypothesis_format: Format | Literal["text"] = "simulstream",
    hypothesis: Path | None = None,
    config: Path | None = None,
) -> list[str]:
    """Return the arguments of ``omnisteval``; by default, it uses the files of the run."""
    unit = "--word_level" if language(target).spaced else "--char_level"
    arguments = ["longform"]
    arguments += ["--speech_segmentation", str(devset.segmentation)]
    arguments += ["--ref_sentences_file", str(devset.references[target])]
    arguments += ["--hypothesis_file", str(hypothesis or files.metrics)]
    arguments += ["--hypothesis_format", hypothesis_format]
    if hypothesis_format == "simulstream":
        arguments += ["--simulstream_config_file", str(config or files.config)]
    # OmniSTEval knows languages without their script: zh-Hant is zh.
    arguments += [unit, "--lang", target.partition("-")[0]]
    arguments += ["--bleu_tokenizer", bleu_tokenizer(target)]
    arguments += ["--output_folder", str(files.folder)]
    return arguments


def check_scorer(targets: Sequence[str]) -> None:
    """Check that the programs that the scorer calls are installed.

    Raises:
        ScoringError: perl is missing.
    """
    if shutil.which("perl") is None and any(language(target).spaced for target in targets):
        raise ScoringError(
            "OmniSTEval runs the Moses scripts, which need `perl` in the PATH; install perl"
        )


def score(files: RunFiles, devset: DevSet, target: str, log: Log) -> Scores:
    """Score the checked log of a finished run; OmniSTEval writes its files to the same folder.

    Raises:
        ScoringError: OmniSTEval failed, or BLEU or chrF is missing.
    """
    arguments = omnisteval_arguments(files, devset, target, log.format)
    values = run_omnisteval(arguments, files.folder)
    numbers: dict[str, float | None] = {}
    for key, name in _TSV_NAMES.items():
        text = values.get(name)
        is_latency = key.startswith("longyaal")
        if text is None and is_latency and log.format == "jsonl":
            # A JSONL log without delays has no latency.
            numbers[key] = None
            continue
        if text is None:
            raise ScoringError(f"{files.folder} contains no score {name!r}; got {values}")
        number = float(text)
        if math.isfinite(number):
            numbers[key] = number
        elif is_latency:
            # LongYAAL ignores words after the end of a recording, which can be all words of an
            # off-line system or a slow machine.
            numbers[key] = None
        else:
            raise ScoringError(f"{files.folder}: {name} is {number}: the output cannot be scored")
    rtf = round(log.computation_s / log.audio_s, 4) if log.audio_s else None
    # Only latencies can be None.
    return Scores(
        bleu=numbers["bleu"] or 0.0,
        chrf=numbers["chrf"] or 0.0,
        longyaal_cu_ms=numbers["longyaal_cu_ms"],
        longyaal_ca_ms=numbers["longyaal_ca_ms"],
        rtf=rtf,
    )


def run_omnisteval(arguments: Sequence[str], folder: Path) -> dict[str, str]:
    """Run OmniSTEval, and return its scores by metric name.

    Raises:
        ScoringError: OmniSTEval failed, or only logged an error.
    """
    table = folder / "scores.tsv"
    # An earlier table must not pass for the result of a failed call.
    table.unlink(missing_ok=True)
    # Run in a separate process: OmniSTEval forks a pool, which is unsafe in an engine's process.
    result = subprocess.run(
        [sys.executable, "-m", "omnisteval.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    swallowed = [line for line in result.stderr.splitlines() if _SWALLOWED in line]
    if result.returncode != 0 or swallowed or not table.is_file():
        tail = "\n".join(swallowed or result.stderr.strip().splitlines()[-8:])
        raise ScoringError(
            f"OmniSTEval exited with status {result.returncode}:\n{tail}\n"
            f"to repeat the call: {shlex.join(['omnisteval', *arguments])}"
        )
    with table.open(encoding="utf-8", newline="") as stream:
        return {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}


def stream_laal(files: RunFiles, devset: DevSet, target: str) -> dict[str, float]:
    """Measure StreamLAAL with Simulstream's scorer, in ms; return nothing without ``mweralign``.

    Raises:
        ScoringError: the scorer failed.
    """
    # mweralign is an extra, because it has no wheel for aarch64.
    if find_spec("mweralign") is None:
        return {}
    command = [sys.executable, "-m", "simulstream.metrics.score_latency"]
    command += ["--eval-config", str(files.config), "--log-file", str(files.metrics)]
    command += ["--reference", str(devset.references[target])]
    command += ["--audio-definition", str(devset.segmentation)]
    command += ["--latency-unit", language(target).latency_unit, "--scorer", "stream_laal"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    match = _STREAM_LAAL.search(result.stdout)
    if result.returncode != 0 or match is None:
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-6:])
        raise ScoringError(f"StreamLAAL failed (exit status {result.returncode}):\n{tail}")
    unaware_s, aware_s = map(float, match.groups())
    return {
        "stream_laal_cu_ms": round(1000 * unaware_s, 4),
        "stream_laal_ca_ms": round(1000 * aware_s, 4),
    }


def scorer_settings(target: str) -> dict[str, str]:
    """Return the settings with which scorers join whole words or single characters."""
    return {"detokenizer_type": "simuleval", "latency_unit": language(target).latency_unit}


def bleu_tokenizer(target: str) -> str:
    """Return sacreBLEU's tokenizer for a language."""
    if language(target).spaced:
        return "13a"
    if target.startswith("zh"):
        return "zh"
    return "char"
