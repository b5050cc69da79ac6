"""Score with COMET and XCOMET in a separate environment.

``unbabel-comet`` needs transformers below 5 and numpy below 2, but the engines need newer versions.
Therefore ``make setup-comet`` creates ``.venv-comet``, whose interpreter runs the scorer.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignatt_agent.config.resources import read_lines
from alignatt_agent.types import AlignAttError

if TYPE_CHECKING:
    from alignatt_agent.evaluation.plan import EvalRun

PYTHON = Path(".venv-comet/bin/python")
MODELS = {"xcomet-xl": "Unbabel/XCOMET-XL", "wmt22-comet-da": "Unbabel/wmt22-comet-da"}
"""Short names of models; the shared task ranks systems by XCOMET-XL."""

WORKER = Path(__file__).with_name("comet_worker.py")
NO_MODEL = 3
"""Exit status of the worker if the model is not in the cache."""


class CometError(AlignAttError, RuntimeError):
    """COMET cannot score; the message states the cause."""


def check_environment() -> None:
    """Check that the interpreter of the COMET environment exists."""
    if not PYTHON.is_file():
        raise CometError(f"{PYTHON} does not exist; run `make setup-comet`")


def checkpoint(model: str) -> str:
    """Return the hub ID of a short name; other names are returned unchanged."""
    return MODELS.get(model.lower(), model)


def comet_scores(triples: Sequence[tuple[str, str, str]], model: str) -> list[float]:
    """Return the score of each triple of source, translation and reference."""
    if not triples:
        return []
    name = checkpoint(model)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "segments.json"
        output = Path(folder) / "scores.json"
        rows = [{"src": source, "mt": mt, "ref": ref} for source, mt, ref in triples]
        data.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        # Without -P, modules in the worker's folder would shadow libraries that the worker imports.
        command = [str(PYTHON), "-P", str(WORKER), name, str(data), str(output)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == NO_MODEL:
            raise CometError(
                f"{name} is not in the Hugging Face cache; download it with: "
                f"hf download {name} (for XCOMET, first accept its license and run hf auth login)"
            )
        if result.returncode != 0 or not output.is_file():
            tail = "\n".join(result.stderr.strip().splitlines()[-6:])
            raise CometError(f"{PYTHON} exited with status {result.returncode}:\n{tail}")
        scores: list[float] = json.loads(output.read_text(encoding="utf-8"))
    return scores


def comet_sections(runs: Sequence[EvalRun], model: str) -> list[dict[str, Any]]:
    """Score runs with COMET in one process, after OmniSTEval; return their JSON sections."""
    triples_of_run = [_triples(run) for run in runs]
    # One call for all runs, so that the model is loaded once.
    scores = comet_scores(list(chain.from_iterable(triples_of_run)), model)
    sections: list[dict[str, Any]] = []
    begin = 0
    for triples in triples_of_run:
        run_scores = scores[begin : begin + len(triples)]
        begin += len(triples)
        sections.append(
            {
                "model": checkpoint(model),
                "score": round(sum(run_scores) / len(run_scores), 6),
                "segments": [round(score, 6) for score in run_scores],
            }
        )
    return sections


def _triples(run: EvalRun) -> list[tuple[str, str, str]]:
    """Return the source, translation and reference of each segment of a scored run."""
    devset = run.devset
    if devset.transcript is None:
        raise CometError(
            f"COMET needs the transcript of the speech: add ref/{run.source}.txt to the dev set, "
            f"with one line per segment"
        )
    sources = read_lines(devset.transcript)
    outputs = read_lines(run.files.instances)
    references = read_lines(devset.references[run.target])
    triples: list[tuple[str, str, str]] = []
    for source, output, reference in zip(sources, outputs, references, strict=True):
        translation = json.loads(output)["prediction"]
        triples.append((source.strip(), translation, reference.strip()))
    return triples
