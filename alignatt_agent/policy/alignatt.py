"""The AlignAtt gate: a first-failure scan over the drafted tokens (Eqs. 5-7)."""

from __future__ import annotations

from typing import Any, Literal

from alignatt_agent.policy.local_agreement import agreed
from alignatt_agent.policy.rows import PeakFilter, head_mean, source_mass
from alignatt_agent.types import (
    NO_CONTEXT,
    AttentionRows,
    Decision,
    Draft,
    DraftContext,
    FloatArray,
    Gate,
    StopReason,
)


class AlignAtt:
    """Accepts the longest draft prefix whose attention stays on the accessible source.

    Args:
        border_margin: source tokens that the peak may reach past the frontier (``b`` of Eq. 5).
        tau_argmax: lowest head-averaged attention at the peak (Eq. 6); 0 accepts any.
        tau_src: lowest attention mass on the accessible source (Eq. 7); 0 accepts any.
        normalise: ``"zscore"`` filters each head by its rows so far, ``"none"`` reads raw rows.
        median_width: odd width of the median filter along the source; 1 switches it off.
        median: whether the filter comes after heads are averaged (``"mean_first"``) or before
            (``"per_head"``).
        n: successive drafts of different sources that have to pass the gate with the same tokens;
            1 asks for no agreement, as the paper. What is wrong in a draft from half a sentence
            looks at heard words like what is right, but seldom survives the next word.

    Raises:
        ValueError: the median width is not a positive odd number, or ``n`` is not positive.
    """

    def __init__(
        self,
        border_margin: int = 1,
        tau_argmax: float = 0.0,
        tau_src: float = 0.0,
        normalise: Literal["zscore", "none"] = "zscore",
        median_width: int = 7,
        median: Literal["mean_first", "per_head"] = "mean_first",
        n: int = 1,
    ) -> None:
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        self._n = n
        if median_width < 1 or median_width % 2 == 0:
            raise ValueError(f"median_width must be a positive odd number, got {median_width}")
        self._settings: dict[str, Any] = {
            "border_margin": border_margin,
            "tau_argmax": tau_argmax,
            "tau_src": tau_src,
            "normalise": normalise,
            "median_width": median_width,
            "median": median,
        }

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Scan ``draft`` left to right and stop before the first token that fails a test.

        Args:
            draft: the drafted tokens with one attention row each.
            frontier: number of leading source tokens that belong to accessible words.
            context: what earlier drafts agree on, for ``n > 1``.

        Raises:
            ValueError: rows are missing, or their number differs from the number of tokens.
        """
        if not draft.token_ids:
            return Decision(0, StopReason.DRAFT_END)
        scan = self.scan(frontier)
        reasons = (scan.judge(row) for row in _rows_of(draft).source)
        reason = next((reason for reason in reasons if reason is not None), None)
        closed = reason is not None
        accepted = len(scan.peaks) - closed
        if self._n > 1 and (common := agreed(draft, context, self._n)) < accepted:
            accepted, reason = common, StopReason.DISAGREEMENT
        return Decision(
            accepted,
            reason or StopReason.DRAFT_END,
            tuple(scan.peaks),
            tuple(scan.accessible_mass),
            closed,
        )

    def gate(self, frontier: int) -> Gate:
        """Describe the scan to an engine that can run it while it drafts."""
        return Gate(self._settings, frontier)

    def scan(self, frontier: int) -> Scan:
        """Start a scan over the rows of a draft."""
        return Scan(frontier, **self._settings)


class Scan:
    """One first-failure scan, fed row by row.

    Args:
        frontier: number of leading source tokens that belong to accessible words.
        border_margin: see ``AlignAtt``, as the others.
        tau_argmax: lowest peak.
        tau_src: lowest accessible mass.
        normalise: filter of the rows.
        median_width: width of the median filter.
        median: its place.

    Attributes:
        peaks: source-token argmax of each row so far.
        accessible_mass: Eq. 3 of each row so far.
    """

    def __init__(
        self,
        frontier: int,
        *,
        border_margin: int,
        tau_argmax: float,
        tau_src: float,
        normalise: str,
        median_width: int,
        median: str = "mean_first",
    ) -> None:
        self._frontier = frontier
        self._border = frontier + border_margin
        self._tau_argmax = tau_argmax
        self._tau_src = tau_src
        self._filter = PeakFilter(normalise, median_width, median)
        self.peaks: list[int] = []
        self.accessible_mass: list[float] = []

    def judge(self, row: FloatArray) -> StopReason | None:
        """Return why the token of this row, ``[heads, source]``, is rejected, or ``None``."""
        mean_row = head_mean(row[None])
        peak = int(self._filter(row).argmax())
        accessible, _ = source_mass(mean_row, self._frontier)
        self.peaks.append(peak)
        self.accessible_mass.append(float(accessible[0]))
        if peak >= self._border:
            return StopReason.SOURCE_FRONTIER
        if mean_row[0, peak] < self._tau_argmax:
            return StopReason.ARGMAX_MASS_WEAK
        if accessible[0] < self._tau_src:
            return StopReason.PROVENANCE_WEAK
        return None


def _rows_of(draft: Draft) -> AttentionRows:
    if draft.rows is None:
        raise ValueError("AlignAtt needs attention rows: draft with a readout")
    if len(draft.rows.source) != len(draft.token_ids):
        raise ValueError(
            f"expected one attention row per drafted token, got {len(draft.rows.source)} rows "
            f"for {len(draft.token_ids)} tokens"
        )
    return draft.rows
