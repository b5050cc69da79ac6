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
        return f"outside by {-margin:.0f} ms" if margin < 0 else f"{name}, {margin:.0f} ms to spare"


def write_result(result: Result, files: RunFiles) -> None:
    """Write ``scores.json``: scores, further measures, and the signature."""
    content = {**asdict(result.scores), **result.measured, "signature": dict(result.signature)}
    write_json(files.scores, content)


def read_result(folder: Path) -> Result:
    """Read the ``scores.json`` of a run."""
    content = _read(RunFiles(folder).scores, f"{folder} is not a scored run")
    try:
        scores = Scores(**{field.name: content.pop(field.name) for field in fields(Scores)})
        signature = content.pop("signature")
        return Result(signature["config"], signature["target"], scores, content, signature)
    except (KeyError, TypeError) as error:
        raise ScoringError(f"{RunFiles(folder).scores} is incomplete: {error!r}") from None


def read_ceilings(folder: Path, signatures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Read the ``offline.json`` of ``alignatt offline`` for the target of each signature.

    Raise an error if a target is missing, or if its models or dev set differ from the signature.
    """
    found: dict[str, dict[str, Any]] = {}
    for signature in signatures:
        target = signature["target"]
        path = folder / target / "offline.json"
        content = _read(path, f"run alignatt offline --target {target} --output {folder}")
        theirs = content["signature"]
        for key, name in _SHARED.items():
            if key in signature and theirs.get(key) != signature[key]:
                raise ScoringError(
                    f"{path} is not comparable with {signature['config']} {target}: its {name} "
                    f"must be {signature[key]}, not {theirs.get(key)}"
                )
        found[target] = content
    return list(found.values())


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
    spaced = language(target).spaced
    unit = ["--word_level" if spaced else "--char_level", "--lang", target.partition("-")[0]]
    configured = ["--simulstream_config_file", str(config or files.config)]
    return [
        "longform",
        *("--speech_segmentation", str(devset.segmentation)),
        *("--ref_sentences_file", str(devset.references[target])),
        *("--hypothesis_file", str(hypothesis or files.metrics)),
        *("--hypothesis_format", hypothesis_format),
        *(configured if hypothesis_format == "simulstream" else []),
        *unit,
        *("--bleu_tokenizer", bleu_tokenizer(target)),
        *("--output_folder", str(files.folder)),
    ]


def check_scorer(targets: Sequence[str]) -> None:
    """Check that the programs that the scorer calls are installed."""
    if shutil.which("perl") is None and any(language(target).spaced for target in targets):
        raise ScoringError(
            "OmniSTEval runs the Moses scripts, which need `perl` in the PATH; install perl"
        )


def score(files: RunFiles, devset: DevSet, target: str, log: Log) -> Scores:
    """Score the checked log of a finished run; OmniSTEval writes its files to the same folder."""
    arguments = omnisteval_arguments(files, devset, target, log.format)
    values = run_omnisteval(arguments, files.folder)
    numbers: dict[str, float | None] = {}
    for key, name in _TSV_NAMES.items():
        # A JSONL log without delays has no latency. LongYAAL ignores words after the end of a
        # recording, which can be all words of an off-line system or a slow machine.
        optional = key.startswith("longyaal")
        text = values.get(name, "nan" if optional and log.format == "jsonl" else None)
        if text is None:
            raise ScoringError(f"{files.folder} contains no score {name!r}; got {values}")
        number = float(text)
        if math.isfinite(number):
            numbers[key] = number
        elif optional:
            numbers[key] = None
        else:
            raise ScoringError(f"{files.folder}: {name} is {number}: the output cannot be scored")
    audio_s = sum(talk.audio_s for talk in log.talks)
    rtf = round(sum(talk.computation_s for talk in log.talks) / audio_s, 4) if audio_s else None
    return Scores(
        bleu=numbers["bleu"] or 0.0,
        chrf=numbers["chrf"] or 0.0,
        longyaal_cu_ms=numbers["longyaal_cu_ms"],
        longyaal_ca_ms=numbers["longyaal_ca_ms"],
        rtf=rtf,
    )


def run_omnisteval(arguments: Sequence[str], folder: Path) -> dict[str, str]:
    """Run OmniSTEval, and return its scores by metric name.

    Errors that OmniSTEval only logs are raised.
    """
    table = folder / "scores.tsv"
    table.unlink(missing_ok=True)
    # Run in a separate process: OmniSTEval forks a pool, which is unsafe in an engine's process.
    result = subprocess.run(
        [sys.executable, "-m", "omnisteval.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    hidden = [line for line in result.stderr.splitlines() if _SWALLOWED in line]
    if result.returncode != 0 or hidden or not table.is_file():
        tail = "\n".join(hidden or result.stderr.strip().splitlines()[-8:])
        raise ScoringError(
            f"OmniSTEval exited with status {result.returncode}:\n{tail}\n"
            f"to repeat the call: {shlex.join(['omnisteval', *arguments])}"
        )
    with table.open(encoding="utf-8", newline="") as stream:
        return {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}


def stream_laal(files: RunFiles, devset: DevSet, target: str) -> dict[str, float]:
    """Measure StreamLAAL with Simulstream's scorer; return nothing without ``mweralign``."""
    if find_spec("mweralign") is None:
        return {}
    command = [
        *(sys.executable, "-m", "simulstream.metrics.score_latency"),
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


def scorer_settings(target: str) -> dict[str, str]:
    """Return the settings with which scorers join whole words or single characters."""
    return {"detokenizer_type": "simuleval", "latency_unit": language(target).latency_unit}


def bleu_tokenizer(target: str) -> str:
    """Return sacreBLEU's tokenizer for a language."""
    if language(target).spaced:
        return "13a"
    return "zh" if target.startswith("zh") else "char"
