"""What ``alignatt calibrate`` prints at the end."""

from __future__ import annotations

from tabulate import tabulate

from alignatt_agent.calibration.select_heads import Calibrated, CalibrationPlan
from alignatt_agent.evaluation.statistics import LEVEL, Estimate


def print_report(plan: CalibrationPlan, done: Calibrated) -> None:
    """Print the heads, the held-out scores, what was left out, and the signature."""
    chosen, provenance = done.content["row"], done.content["provenance"]
    found = done.outcome.rows[chosen]
    heads = "  ".join(f"{a},{b} {100 * found.ts((a, b)):.1f}" for a, b in found.ranking[:16])
    pairs, tokens = done.outcome.held_out
    print(
        f"\n{plan.name}, {plan.direction}: Translation Score, %\n"
        f"heads     {heads}\n"
        f"          (layer,head; the set holds the first {plan.top_k})\n"
        f"held out  {pairs} pairs, {tokens} tokens aligned by {provenance['judged_by']}; "
        f"{LEVEL} % bootstrap intervals"
    )
    top = f"top {plan.top_k}"
    header = ("row", f"{top}, micro", f"{top}, macro", "all, micro", "all, macro", "gain, micro")
    rows = [
        (
            name + "*" * (name == chosen),
            *map(_cell, (*row.head_set, *row.all_heads, row.gain)),
        )
        for name, row in done.outcome.rows.items()
    ]
    print(tabulate(rows, header, tablefmt="plain"))
    if done.error_rate is not None:
        rate = done.error_rate
        print(
            f"aligner   alignment error rate {100 * rate.aer:.1f} %, precision "
            f"{100 * rate.precision:.1f} %, recall {100 * rate.recall:.1f} % against the gold "
            f"alignments, punctuation left out"
        )
    reasons = ", ".join(f"{count} {reason}" for reason, count in provenance["skipped"].items())
    print(
        f"left out  {reasons or 'nothing'}\n"
        f"signature {provenance['tool']} | {provenance['engine']} | model {provenance['model']} | "
        f"prompt {provenance['prompt']} | pairs {provenance['pairs']} | held out "
        f"{provenance['held_out_pairs']} | aligner {plan.aligner.name}\n"
        f"written   {plan.output}"
    )


def _cell(value: Estimate) -> str:
    return f"{100 * value.value:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"
