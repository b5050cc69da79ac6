"""The printed form of the parity matrix, line by line while it is measured."""

from __future__ import annotations

from collections.abc import Sequence

from alignatt_agent.checks.parity_rows import Cell, Seam

HEAD = (
    f"{'model':<14}{'mode':<10}{'type':<9}{'served':<9}{'tokens':>6}"
    f"{'max|dA|':>10}{'mean|dA|':>10}{'argmax':>9}{'gate':>9}{'settled':>9}"
    f"{'mean:fp32':>11}{'floor':>9}{'ids':>7}{'logprobs':>9}"
)

LEGEND = """\
max, mean, argmax, gate: against Transformers eager in the same type; gate counts decisions
settled: decisions that Transformers takes the same way in eager and fused attention and float32
mean:fp32: against Transformers eager in float32
floor: mean difference of Transformers eager in the same type to float32
ids, logprobs: requests that are the same without capture"""


def line(cell: Cell) -> str:
    """Format one cell."""
    gap, verdicts = cell.same_dtype, cell.verdicts
    return (
        f"{cell.subject:<14}{cell.mode:<10}{cell.dtype:<9}{cell.situation:<9}{cell.tokens:>6}"
        f"{gap.largest:>10.1e}{gap.mean:>10.1e}{gap.same_peak / max(gap.rows, 1):>9.2%}"
        f"{f'{verdicts.same}/{verdicts.total}':>9}"
        f"{f'{verdicts.same_settled}/{verdicts.settled}':>9}"
        f"{cell.fp32.mean:>11.1e}{cell.floor.mean:>9.1e}"
        f"{f'{cell.same_ids}/{cell.requests}':>7}{f'{cell.same_logprobs}/{cell.requests}':>9}"
        f"{'  MISSED' if cell.problems else ''}"
    )


def foot(seams: Sequence[Seam]) -> str:
    """Explain the columns, and format the gaps between Transformers' two seams."""
    lines = ["", LEGEND, "", "Transformers, SDPA with qk-fast against eager"]
    for seam in seams:
        gap = seam.gap
        lines.append(
            f"{seam.subject:<14}{seam.dtype:<9}max|dA| {gap.largest:.1e}  mean|dA| {gap.mean:.1e}  "
            f"argmax {gap.same_peak / max(gap.rows, 1):.2%}  "
            f"gate {seam.verdicts.same}/{seam.verdicts.total}"
            f"{'  MISSED' if seam.problems else ''}"
        )
    return "\n".join(lines)
