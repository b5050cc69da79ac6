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
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from tabulate import tabulate

from alignatt_agent.config.command_line import page
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.latency import read_instances, yaal_ms
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Result, ScoringError, bleu_tokenizer, read_result
from alignatt_agent.evaluation.statistics import interval

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
    """Compare two scored runs of a target; ``a`` is the baseline."""
    runs = (read_result(a), read_result(b))
    _check_same(runs, a, b)
    target = runs[0].target
    paths, unit = [RunFiles(run).instances for run in (a, b)], language(target).latency_unit
    segments = [read_instances(path, unit) for path in paths]
    references = [item.reference for item in segments[0]]
    if references != [item.reference for item in segments[1]]:
        raise ScoringError(f"{a} and {b} were scored against different references or segments")
    outputs = [[item.prediction for item in items] for items in segments]
    found = _quality(outputs, references, bleu_tokenizer(target), samples)
    rng = np.random.default_rng(12345)
    for metric, aware in (("LongYAAL CU", False), ("LongYAAL CA", True)):
        lags = [np.array([yaal_ms(item, aware) for item in items], float) for items in segments]
        if all(np.isfinite(values).any() for values in lags):
            found.append(_resampled(metric, lags[0], lags[1], samples, rng))
    comets = [run.measured.get("comet", {}) for run in runs]
    if all(comets) and comets[0]["model"] == comets[1]["model"]:
        scores = [np.array(comet["segments"]) for comet in comets]
        found.append(_resampled("COMET", scores[0], scores[1], samples, rng))
    return found


def _check_same(runs: tuple[Result, Result], a: Path, b: Path) -> None:
    one, two = (run.signature for run in runs)
    for key in ("target", "devset"):
        if one.get(key) != two.get(key):
            raise ScoringError(f"{key} differs: {a} has {one.get(key)}, {b} has {two.get(key)}")
    versions = [signature["versions"]["omnisteval"] for signature in (one, two)]
    if versions[0] != versions[1]:
        raise ScoringError(
            f"the versions of OmniSTEval differ ({versions[0]} and {versions[1]}); "
            f"score both runs again (simulstream-eval --score-only)"
        )


def _quality(
    outputs: list[list[str]], references: list[str], tokenizer: str, samples: int
) -> list[Difference]:
    metrics: dict[str, Any] = {
        "BLEU": BLEU(tokenize=tokenizer, references=[references]),
        "chrF": CHRF(references=[references]),
    }
    systems: list[tuple[str, Sequence[str]]] = [("A", outputs[0]), ("B", outputs[1])]
    # PairedTest reads its seed from the environment variable SACREBLEU_SEED.
    _, scores = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)()
    found = []
    for name, results in scores.items():
        if name == "System":
            continue
        one, two = (cast(Any, result) for result in results)
        p = 1.0 if outputs[0] == outputs[1] else float(two.p_value)
        found.append(Difference(name, one.score, two.score, two.score - one.score, p))
    return found


def _resampled(metric: str, a: Any, b: Any, samples: int, rng: np.random.Generator) -> Difference:
    """Bootstrap the paired difference of means; a segment may be NaN in either run."""
    picks = rng.integers(0, len(a), (samples, len(a)))
    drawn = np.array([np.nanmean(b[pick]) - np.nanmean(a[pick]) for pick in picks])
    difference = float(np.nanmean(b) - np.nanmean(a))
    # As in sacreBLEU, count the centered resamples that reach the difference, and add one.
    extreme = np.abs(drawn - drawn.mean()) >= abs(difference)
    p = 1.0 if np.array_equal(a, b, equal_nan=True) else (int(extreme.sum()) + 1) / (samples + 1)
    one, two, found = float(np.nanmean(a)), float(np.nanmean(b)), interval(difference, drawn)
    return Difference(metric, one, two, difference, p, found.low, found.high)


def common_targets(a: Path, b: Path) -> list[tuple[str, Path, Path]]:
    """Return each common target with its two folders, which may be ``a`` and ``b`` themselves."""
    if (a / "scores.json").is_file() and (b / "scores.json").is_file():
        return [(read_result(a).target, a, b)]
    names = [{path.parent.name for path in root.glob("*/scores.json")} for root in (a, b)]
    both = sorted(names[0] & names[1])
    if not both:
        raise ScoringError(
            f"no common target: {a} has scores for {', '.join(sorted(names[0])) or 'none'}, "
            f"{b} for {', '.join(sorted(names[1])) or 'none'}"
        )
    return [(name, a / name, b / name) for name in both]


def table(title: str, differences: Sequence[Difference]) -> str:
    """Format the differences of one target."""
    rows = [
        (
            *(item.metric, item.a, item.b, item.difference, item.p, "*" * (item.p < 0.05)),
            "" if item.low is None else f"[{item.low:+.2f}, {item.high:+.2f}]",
        )
        for item in differences
    ]
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
    found = [(name, compare(a, b)) for name, a, b in common_targets(arguments.a, arguments.b)]
    print(f"A: {arguments.a}\nB: {arguments.b}")
    for name, differences in found:
        print(f"\n{table(name, differences)}")
    print(f"\npaired bootstrap over segments, {SAMPLES} resamples; * p < 0.05")
    return 0
