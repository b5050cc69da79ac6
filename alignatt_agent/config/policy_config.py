"""The gate, and the rivals it is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from alignatt_agent.config.errors import Strict


class PolicyConfig(Strict):
    """The gate of AlignAtt (Eqs. 2-7); the defaults are the paper's setting.

    Attributes:
        name: ``alignatt``; its rivals ``hold_n`` (emit a draft without its last units),
            ``local_agreement`` (emit what successive drafts have in common), ``wait_k`` (stay so
            many words behind the speaker) and ``confidence`` (emit what the model is sure of); or
            ``none`` to emit whole drafts.
        n: ``alignatt``: drafts of different sources that have to pass the gate with the same
            tokens, 1 is the paper's gate; ``local_agreement``: drafts that have to agree, at
            least 2; ``hold_n``: units to hold back; ``wait_k``: words to wait for, at least 1.
        rate: ``wait_k``: units written for every word that is heard after those.
        tau_prob: ``confidence``: lowest probability that a token may have.
        top_k: how many heads of the head set are read.
        normalise: per-head prefix-online z-score before heads are averaged, or none.
        median_width: width of the median filter along the source, in tokens; 1 is none.
        median: average heads before the filter, as the paper writes, or filter each head first,
            as the paper's submission ran.
        border_margin: tokens that the attention peak may reach past the frontier; a negative one
            keeps the last accessible tokens off limits too, as AlignAtt does for speech frames.
        tau_argmax: lowest peak attention that a token may have; 0 accepts any.
        tau_src: lowest attention mass on accessible source that a token may have; 0 accepts any.
    """

    name: Literal["alignatt", "hold_n", "local_agreement", "wait_k", "confidence", "none"] = (
        "alignatt"
    )
    n: int = Field(default=1, ge=0)
    rate: float = Field(default=1.0, gt=0)
    tau_prob: float = Field(default=0.5, ge=0, le=1)
    top_k: int = Field(default=8, ge=1)
    normalise: Literal["zscore", "none"] = "zscore"
    median_width: int = Field(default=7, ge=1)
    median: Literal["mean_first", "per_head"] = "mean_first"
    border_margin: int = Field(default=1, ge=-16, le=16)
    tau_argmax: float = 0.0
    tau_src: float = Field(default=0.0, ge=0, le=1)

    @property
    def reads(self) -> bool:
        """Whether it judges by what is read out of the model, besides the tokens."""
        return self.name in ("alignatt", "confidence")

    @field_validator("median_width")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("a median needs an odd width")
        return value

    @model_validator(mode="after")
    def _enough_drafts(self) -> PolicyConfig:
        least = {"alignatt": 1, "local_agreement": 2, "wait_k": 1}.get(self.name, 0)
        if self.n < least:
            raise ValueError(f"{self.name} needs n of at least {least}, got {self.n}")
        return self
