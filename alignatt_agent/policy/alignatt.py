"""The AlignAtt gate: a first-failure scan over the drafted tokens (Eqs. 5-7)."""

from __future__ import annotations

from typing import Literal

from alignatt_agent.nouns import AttentionRows, Decision, Draft, StopReason
from alignatt_agent.policy.rows import head_mean, source_mass, source_peaks


class AlignAtt:
    """Accepts the longest draft prefix whose attention stays on the accessible source.

    Args:
        border_margin: source tokens that the peak may reach past the frontier (``b`` of Eq. 5).
        tau_argmax: lowest head-averaged attention at the peak (Eq. 6); 0 accepts any.
        tau_src: lowest attention mass on the accessible source (Eq. 7); 0 accepts any.
        normalise: ``"zscore"`` filters each head by its earlier rows, ``"none"`` reads raw rows.
        median_width: odd width of the median filter along the source; 1 switches it off.

    Raises:
        ValueError: the median width is not a positive odd number.
    """

    def __init__(
        self,
        border_margin: int = 1,
        tau_argmax: float = 0.0,
        tau_src: float = 0.0,
        normalise: Literal["zscore", "none"] = "zscore",
        median_width: int = 7,
    ) -> None:
        if median_width < 1 or median_width % 2 == 0:
            raise ValueError(f"median_width must be a positive odd number, got {median_width}")
        self._margin = border_margin
        self._tau_argmax = tau_argmax
        self._tau_src = tau_src
        self._zscore = normalise == "zscore"
        self._median_width = median_width

    def decide(self, draft: Draft, frontier: int) -> Decision:
        """Scan ``draft`` left to right and stop before the first token that fails a test.

        Args:
            draft: the drafted tokens with one attention row each.
            frontier: number of leading source tokens that belong to accessible words.

        Raises:
            ValueError: rows are missing, or their number differs from the number of tokens.
        """
        if not draft.token_ids:
            return Decision(0, StopReason.DRAFT_END)
        source = _rows_of(draft).source
        mean_rows = head_mean(source)
        accessible, _ = source_mass(mean_rows, frontier)
        peaks = source_peaks(source, zscore=self._zscore, median_width=self._median_width)

        reason = StopReason.DRAFT_END
        scanned = accepted = 0
        for scanned, (peak, mass) in enumerate(zip(peaks, accessible, strict=True), 1):
            if peak >= frontier + self._margin:
                reason = StopReason.SOURCE_FRONTIER
            elif mean_rows[scanned - 1, peak] < self._tau_argmax:
                reason = StopReason.ARGMAX_MASS_WEAK
            elif mass < self._tau_src:
                reason = StopReason.PROVENANCE_WEAK
            else:
                accepted = scanned
                continue
            break
        return Decision(
            accepted,
            reason,
            tuple(int(peak) for peak in peaks[:scanned]),
            tuple(float(mass) for mass in accessible[:scanned]),
        )


def _rows_of(draft: Draft) -> AttentionRows:
    if draft.rows is None:
        raise ValueError("AlignAtt needs attention rows: draft with a readout")
    if len(draft.rows.source) != len(draft.token_ids):
        raise ValueError(
            f"expected one attention row per drafted token, got {len(draft.rows.source)} rows "
            f"for {len(draft.token_ids)} tokens"
        )
    return draft.rows
