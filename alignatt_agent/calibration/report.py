"""What ``alignatt-calibrate`` prints at the end."""

from __future__ import annotations

from alignatt_agent.calibration.select_heads import Calibrated, Plan
from alignatt_agent.evaluation.statistics import LEVEL, Estimate


def print_report(plan: Plan, done: Calibrated) -> None:
    """Print the heads, the held-out scores, what was left out, and the signature."""
    outcome = done.outcome
    found = outcome.rows[done.row]
    heads = "  ".join(f"{a},{b} {100 * found.ts((a, b)):.1f}" for a, b in found.ranking[:16])
    print(f"\n{plan.name}, {plan.direction}: Translation Score, %")
    print(f"heads     {heads}")
    print(f"          (layer,head; the set holds the first {plan.top_k})")
    pairs, tokens = outcome.held_out
    print(
        f"held out  {pairs} pairs, {tokens} tokens aligned by "
        f"{done.content['provenance']['judged_by']}; {LEVEL} % bootstrap intervals"
    )
    columns = (f"top {plan.top_k}, micro", f"top {plan.top_k}, macro", "all, micro", "all, macro")
    print(f"{'row':<12}" + "".join(f"{name:<21}" for name in columns) + "gain, micro")
    for name, row in outcome.rows.items():
        cells = (*row.held_out.head_set, *row.held_out.all_heads, row.held_out.gain)
        mark = "*" if name == done.row else " "
        print(f"{name + mark:<12}" + "".join(f"{_cell(cell):<21}" for cell in cells).rstrip())
    if done.error_rate is not None:
        rate = done.error_rate
        print(
            f"aligner   alignment error rate {100 * rate.aer:.1f} %, precision "
            f"{100 * rate.precision:.1f} %, recall {100 * rate.recall:.1f} % against the gold "
            f"alignments, punctuation left out"
        )
    provenance = done.content["provenance"]
    skipped = provenance["skipped"]
    reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    print(f"left out  {reasons or 'nothing'}")
    print(
        f"signature {provenance['tool']} | {provenance['engine']} | model {provenance['model']} | "
        f"prompt {provenance['prompt']} | pairs {provenance['pairs']} | held out "
        f"{provenance['held_out_pairs']} | aligner {plan.aligner.name}"
    )
    print(f"written   {plan.output}")


def _cell(value: Estimate) -> str:
    return f"{100 * value.value:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"
