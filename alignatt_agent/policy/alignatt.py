"""The AlignAtt gate: a first-failure scan over the drafted tokens (Eqs. 5-7)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from alignatt_agent.policy.base import Policy, Reads, RowScan, Texts
from alignatt_agent.policy.rivals import DISAGREEMENT, agreed
from alignatt_agent.policy.rows import PeakFilter, head_mean
from alignatt_agent.types import (
    NO_CONTEXT,
    Decision,
    Draft,
    DraftContext,
    FloatArray,
    StopReason,
)


class AlignAtt(Policy):
    """Accepts the longest draft prefix whose attention is on the accessible source.

    The defaults are the paper's settings.

    Attributes:
        drafts: number of successive drafts of different sources that must pass the gate with equal
            tokens; 1 requires no agreement, as in the paper. Wrong tokens in drafts of unfinished
            sentences attend to accessible words as correct tokens do, but rarely recur.
        normalize: ``zscore`` per head, over all rows so far and before averaging, or ``none``.
        median_width: odd width of the median filter along the source, in tokens; 1 means no filter.
        median: ``mean_first`` averages the heads before the filter, as in the paper's text;
            ``per_head`` filters each head first, as in the paper's submission.
        border_margin: number of tokens by which the peak may exceed the frontier (``b`` of Eq. 5);
            a negative value also excludes the last accessible tokens, as AlignAtt does for speech
            frames.
        tau_argmax: minimum head-averaged attention at the peak (Eq. 6); 0 accepts any value.
        tau_src: minimum attention mass on the accessible source (Eq. 7); 0 accepts any value.
    """

    reads: ClassVar[Reads] = "rows"
    reasons: ClassVar[Texts] = {
        StopReason.SOURCE_FRONTIER: (
            "waiting until “{unsure}” is certain",
            "waiting for the words after “{heard}”",
            "waiting for the next words",
        ),
        StopReason.ARGMAX_MASS_WEAK: ("not sure yet which word “{word}” translates",),
        StopReason.PROVENANCE_WEAK: ("waiting for more speech before “{word}”",),
        **DISAGREEMENT,
    }
    name: Literal["alignatt"] = "alignatt"
    drafts: int = Field(default=1, ge=1)
    # With these filters, 36 % of the peaks of the embedded models are on an aligned word; without
    # them, 95 % are (docs/evidence.md, Settings). The defaults follow the paper nevertheless.
    normalize: Literal["zscore", "none"] = "zscore"
    median_width: int = Field(default=7, ge=1)
    median: Literal["mean_first", "per_head"] = "mean_first"
    border_margin: int = Field(default=1, ge=-16, le=16)
    # The paper's operating points leave both thresholds at 0, i.e. inactive.
    tau_argmax: float = 0.0
    tau_src: float = Field(default=0.0, ge=0, le=1)

    @field_validator("median_width")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("expected an odd width, because the filter is a median")
        return value

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Scan ``draft`` left to right and stop before the first token that fails a test."""
        if not draft.token_ids:
            return Decision(0, StopReason.DRAFT_END)
        scan, reason = self._scanned(draft, frontier)
        closed = reason is not None
        accepted = len(scan.peaks)
        if closed:
            # The last row of a closed scan is that of the rejected token.
            accepted -= 1
        # Agreement can only shorten the accepted prefix. The engine has no earlier drafts and
        # cannot test it, so ``closed`` remains the result of the rows.
        if self.drafts > 1:
            common = agreed(draft, context, self.drafts)
            if common < accepted:
                accepted = common
                reason = StopReason.DISAGREEMENT
        return Decision(
            accepted=accepted,
            reason=reason or StopReason.DRAFT_END,
            peaks=tuple(scan.peaks),
            accessible_mass=tuple(scan.accessible_mass),
            closed=closed,
        )

    def _scanned(self, draft: Draft, frontier: int) -> tuple[Scan, StopReason | None]:
        """Scan a draft up to the first rejected token; return the scan and the reason."""
        token_count = len(draft.token_ids)
        if draft.rows is None or len(draft.rows.source) != token_count:
            row_count = 0 if draft.rows is None else len(draft.rows.source)
            raise ValueError(
                f"expected {token_count} attention rows, one per drafted token, got {row_count}: "
                "draft with a readout"
            )
        scan = Scan(self, frontier)
        # First failure: the tokens after a rejected token were decoded with it, so they are not
        # read even if their own rows would pass.
        for row in draft.rows.source:
            reason = scan.judge(row)
            if reason is not None:
                return scan, reason
        return scan, None

    def edge(self, frontier: int) -> int:
        """Return the first source position at which Eq. 5 rejects a peak."""
        return max(0, frontier + self.border_margin)

    def alone(self) -> AlignAtt:
        """Return the gate without the requirement that drafts agree."""
        return self.model_copy(update={"drafts": 1})

    def scan(self, frontier: int) -> RowScan:
        """Start a scan over the rows of a draft."""
        return Scan(self, frontier).judge


class Scan:
    """One first-failure scan, which processes a draft row by row.

    Attributes:
        peaks: source-token argmax of each row so far.
        accessible_mass: value of Eq. 3 for each row so far.
    """

    def __init__(self, policy: AlignAtt, frontier: int) -> None:
        self._policy = policy
        self._frontier = frontier
        self._filter = PeakFilter(policy.normalize, policy.median_width, policy.median)
        self.peaks: list[int] = []
        self.accessible_mass: list[float] = []

    def judge(self, row: FloatArray) -> StopReason | None:
        """Return the reason to reject the token of a row, ``[heads, source]``, or ``None``."""
        # Branch A of the paper: the masses are those of the mean row, without filters. The rest of
        # the row is the inaccessible mass (Eq. 4), which the gate does not test.
        (mean_row,) = head_mean(row[None])
        mass = float(mean_row[: self._frontier].sum())
        # Branch B: only the position of the peak depends on the filters.
        peak = int(self._filter(row).argmax())
        self.peaks.append(peak)
        self.accessible_mass.append(mass)
        # Eq. 5, Eq. 6 and Eq. 7, in the order of the paper. Eq. 5 compares tokens with tokens
        # here, and with a number of words in the paper (docs/paper.md).
        if peak >= self._policy.edge(self._frontier):
            return StopReason.SOURCE_FRONTIER
        if mean_row[peak] < self._policy.tau_argmax:
            return StopReason.ARGMAX_MASS_WEAK
        if mass < self._policy.tau_src:
            return StopReason.PROVENANCE_WEAK
        return None
