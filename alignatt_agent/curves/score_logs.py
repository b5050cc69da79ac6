"""Scores many logs with OmniSTEval in one process: ``python -m ...curves.score_logs JOBS.json``.

A process of its own, because OmniSTEval forks a pool; one for all logs, because importing it takes
longer than scoring a talk.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import omnisteval.cli
from omnisteval.data import Instance
from omnisteval.scoring import YAALScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tqdm import tqdm

TSV_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "cu_ms": "LongYAAL (CU)",
    "ca_ms": "LongYAAL (CA)",
}


def score_log(arguments: list[str], folder: Path, unit: str, tokenizer: str) -> dict[str, Any]:
    """Run the ``omnisteval`` command line and return scores with statistics of every segment.

    Args:
        arguments: of the command line.
        folder: its output folder.
        unit: latency unit, ``"word"`` or ``"char"``.
        tokenizer: of BLEU.
    """
    before = sys.argv
    sys.argv = ["omnisteval", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            omnisteval.cli.main()
    finally:
        sys.argv = before
    with (folder / "scores.tsv").open(encoding="utf-8", newline="") as stream:
        values = {row["metric"]: row["value"] for row in csv.DictReader(stream, delimiter="\t")}
    text = (folder / "instances.resegmented.jsonl").read_text(encoding="utf-8")
    instances = [Instance.from_dict(json.loads(line), unit) for line in text.splitlines()]
    predictions = [item.prediction for item in instances]
    references = [[item.reference for item in instances]]
    return {
        "scores": {key: float(values[name]) for key, name in TSV_NAMES.items()},
        # sacreBLEU's own sums; no public function returns them by segment.
        "bleu": BLEU(tokenize=tokenizer)._extract_corpus_statistics(predictions, references),
        "chrf": CHRF()._extract_corpus_statistics(predictions, references),
        "cu_ms": _delays(instances, computation_aware=False),
        "ca_ms": _delays(instances, computation_aware=True),
    }


def _delays(instances: list[Instance], computation_aware: bool) -> list[float | None]:
    """LongYAAL of every segment; ``None`` where OmniSTEval leaves the segment out."""
    scorer = YAALScorer(computation_aware=computation_aware, is_longform=True)
    key = "emission_ca" if computation_aware else "emission_cu"
    return [scorer.compute(item) if getattr(item, key) else None for item in instances]


def main() -> None:
    """Score every job of the list; each result is written when it is complete."""
    logging.disable(logging.WARNING)
    for job in tqdm(json.loads(Path(sys.argv[1]).read_text()), desc="scoring", unit="run"):
        result = Path(job["result"])
        found = score_log(
            job["arguments"], Path(job["folder"]), job["latency_unit"], job["bleu_tokenizer"]
        )
        fresh = result.with_suffix(".part")
        fresh.write_text(json.dumps({"log": job["log"], **found}), encoding="utf-8")
        fresh.replace(result)


if __name__ == "__main__":
    main()
