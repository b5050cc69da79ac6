"""StreamLAAL, the latency that IWSLT reports beside LongYAAL, by Simulstream's own scorer."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import log_format
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import ScoringError

_FOUND = re.compile(
    r"LatencyScores\(ideal_latency=([-\d.e+]+), computational_aware_latency=([-\d.e+]+)\)"
)


def stream_laal(files: RunFiles, devset: DevSet, target: str) -> dict[str, float] | None:
    """Return ``stream_laal_cu_ms`` and ``stream_laal_ca_ms``.

    ``None`` where it cannot be had: another format than Simulstream's log, or no ``mweralign``.

    Raises:
        ScoringError: the scorer failed.
    """
    if log_format(files.metrics) != "simulstream" or not available():
        return None
    command = [
        *(sys.executable, "-m", "simulstream.metrics.score_latency"),
        *("--eval-config", str(files.config), "--log-file", str(files.metrics)),
        *("--reference", str(devset.references[target])),
        *("--audio-definition", str(devset.segmentation)),
        *("--latency-unit", language(target).latency_unit, "--scorer", "stream_laal"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _FOUND.search(result.stdout)
    if result.returncode != 0 or found is None:
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-6:])
        raise ScoringError(f"StreamLAAL failed (exit status {result.returncode}):\n{tail}")
    ideal, aware = (1000 * float(text) for text in found.groups())
    return {"stream_laal_cu_ms": round(ideal, 4), "stream_laal_ca_ms": round(aware, 4)}


def available() -> bool:
    """Whether the aligner that StreamLAAL needs is installed."""
    return importlib.util.find_spec("mweralign") is not None
