"""Test whether two scored runs differ significantly in quality or latency.

Quality is tested by sacreBLEU's paired bootstrap resampling over the segments that OmniSTEval
scored. Latency is tested in the same way, by resampling LongYAAL over these segments.

Examples:
  compare two configurations on one target:
    alignatt compare outputs/dev-low/de outputs/no-gate/de

  compare all targets that the two runs have in common:
    alignatt compare outputs/dev-low outputs/dev-high

A is the baseline, and each difference is B - A. As in sacreBLEU, p is the share of resamples whose
difference is at least as large by chance; * marks p < 0.05.

exit status: 0 success; 2 the runs cannot be compared
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from omnisteval.data import Instance
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from tabulate import tabulate

from alignatt_agent.config.command_line import page
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.latency import read_instances, yaal_ms
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Result, ScoringError, bleu_tokenizer, read_result
from alignatt_agent.evaluation.statistics import Array, interval

SAMPLES = 1000
"""Number of resamples."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One score of the runs ``a`` and ``b``, and the 95 % interval of ``b - a`` if known."""

    metric: str
    a: float
    b: float
    difference: float
    p: float
    low: float | None = None
    high: float | None = None


def compare(a: Path, b: Path, samples: int = SAMPLES) -> list[Difference]:
    """Compare two scored runs of a target; ``a`` is the baseline.

    Raises:
        ScoringError: the runs are not comparable.
    """
    run_a = read_result(a)
    run_b = read_result(b)
    _check_comparable(run_a, run_b, a, b)
    target = run_a.target
    unit = language(target).latency_unit
    segments_a = read_instances(RunFiles(a).instances, unit)
    segments_b = read_instances(RunFiles(b).instances, unit)
    references = [segment.reference for segment in segments_a]
    if references != [segment.reference for segment in segments_b]:
        raise ScoringError(f"{a} and {b} were scored against different references or segments")
    output_a = [segment.prediction for segment in segments_a]
    output_b = [segment.prediction for segment in segments_b]
    differences = _quality(output_a, output_b, references, bleu_tokenizer(target), samples)
    # The measures share a generator, so their order is part of the result.
    rng = np.random.default_rng(12345)
    for metric, aware in (("LongYAAL CU", False), ("LongYAAL CA", True)):
        lags_a = _segment_lags(segments_a, aware)
        lags_b = _segment_lags(segments_b, aware)
        if np.isfinite(lags_a).any() and np.isfinite(lags_b).any():
            differences.append(_resampled(metric, lags_a, lags_b, samples, rng))
    comet_a = run_a.measured.get("comet")
    comet_b = run_b.measured.get("comet")
    if comet_a and comet_b and comet_a["model"] == comet_b["model"]:
        scores_a = np.array(comet_a["segments"])
        scores_b = np.array(comet_b["segments"])
        differences.append(_resampled("COMET", scores_a, scores_b, samples, rng))
    return differences


def _check_comparable(run_a: Result, run_b: Result, a: Path, b: Path) -> None:
    for key in ("target", "devset"):
        value_a = run_a.signature.get(key)
        value_b = run_b.signature.get(key)
        if value_a != value_b:
            raise ScoringError(f"{key} differs: {a} has {value_a}, {b} has {value_b}")
    version_a = run_a.signature["versions"]["omnisteval"]
    version_b = run_b.signature["versions"]["omnisteval"]
    if version_a != version_b:
        raise ScoringError(
            f"the versions of OmniSTEval differ ({version_a} and {version_b}); "
            f"score both runs again (simulstream-eval --score-only)"
        )


def _segment_lags(segments: Sequence[Instance], aware: bool) -> Array:
    """Return LongYAAL of each segment in ms; segments that OmniSTEval skips are NaN."""
    return np.array([yaal_ms(segment, aware) for segment in segments], np.float64)


def _quality(
    output_a: list[str],
    output_b: list[str],
    references: list[str],
    tokenizer: str,
    samples: int,
) -> list[Difference]:
    metrics: dict[str, Any] = {
        "BLEU": BLEU(tokenize=tokenizer, references=[references]),
        "chrF": CHRF(references=[references]),
    }
    systems: list[tuple[str, Sequence[str]]] = [("A", output_a), ("B", output_b)]
    # PairedTest reads its seed from the environment variable SACREBLEU_SEED.
    _, scores = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)()
    differences: list[Difference] = []
    for metric, results in scores.items():
        if metric == "System":  # the names of the systems, not a metric
            continue
        result_a, result_b = cast(Any, results)
        # sacreBLEU counts only larger differences, so it would call equal output significant.
        p = 1.0 if output_a == output_b else float(result_b.p_value)
        differences.append(
            Difference(
                metric=metric,
                a=result_a.score,
                b=result_b.score,
                difference=result_b.score - result_a.score,
                p=p,
            )
        )
    return differences


def _resampled(
    metric: str, a: Array, b: Array, samples: int, rng: np.random.Generator
) -> Difference:
    """Bootstrap the paired difference of means; a segment may be NaN in either run."""
    picks = rng.integers(0, len(a), (samples, len(a)))
    drawn = np.array([np.nanmean(b[pick]) - np.nanmean(a[pick]) for pick in picks])
    mean_a = float(np.nanmean(a))
    mean_b = float(np.nanmean(b))
    difference = mean_b - mean_a
    if np.array_equal(a, b, equal_nan=True):
        p = 1.0
    else:
        # As in sacreBLEU, count the centered resamples that reach the difference, and add one.
        extreme = np.abs(drawn - drawn.mean()) >= abs(difference)
        p = (int(extreme.sum()) + 1) / (samples + 1)
    estimate = interval(difference, drawn)
    return Difference(metric, mean_a, mean_b, difference, p, estimate.low, estimate.high)


def common_targets(a: Path, b: Path) -> list[tuple[str, Path, Path]]:
    """Return each common target with its two folders, which may be ``a`` and ``b`` themselves.

    Raises:
        ScoringError: the folders have no target in common.
    """
    if RunFiles(a).scores.is_file() and RunFiles(b).scores.is_file():
        return [(read_result(a).target, a, b)]
    targets_a = _scored_targets(a)
    targets_b = _scored_targets(b)
    common = sorted(targets_a & targets_b)
    if not common:
        raise ScoringError(
            f"no common target: {a} has scores for {', '.join(sorted(targets_a)) or 'none'}, "
            f"{b} for {', '.join(sorted(targets_b)) or 'none'}"
        )
    return [(target, a / target, b / target) for target in common]


def _scored_targets(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/scores.json")}


def table(title: str, differences: Sequence[Difference]) -> str:
    """Format the differences of one target."""
    rows = []
    for score in differences:
        mark = "*" if score.p < 0.05 else ""
        limits = ""
        if score.low is not None:
            limits = f"[{score.low:+.2f}, {score.high:+.2f}]"
        rows.append((score.metric, score.a, score.b, score.difference, score.p, mark, limits))
    head = (title, "A", "B", "B - A", "p", "", "95 % interval")
    digits = ("", ".2f", ".2f", "+.2f", ".4f", "", "")
    return str(tabulate(rows, head, floatfmt=digits, numalign="right"))


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("alignatt compare", **page(__doc__))
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="output folder of the baseline (OUT or OUT/TARGET)")
    add("b", type=Path, metavar="B", help="output folder of the run to compare")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    tables: list[str] = []
    # All comparisons come before the first line of output: an error leaves no partial report.
    for target, a, b in common_targets(arguments.a, arguments.b):
        tables.append(table(target, compare(a, b)))
    print(f"A: {arguments.a}\nB: {arguments.b}")
    for text in tables:
        print(f"\n{text}")
    print(f"\npaired bootstrap over segments, {SAMPLES} resamples; * p < 0.05")
    return 0
