"""What may differ between the target languages of one configuration."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from alignatt_agent.config.errors import Strict


class TargetSpeech(Strict):
    """How a translation side reads the live tail that all targets share.

    Attributes:
        hold_back_ms: see ``SpeechConfig``; sentences are closed by the shared one.
        stable_only: see ``SpeechConfig``.
    """

    nothing_else: ClassVar[str] = "all targets share one ear"
    hold_back_ms: float | None = Field(default=None, ge=0)
    stable_only: bool | None = None


class TargetConfig(Strict):
    """What one target language has otherwise; what is not given is the configuration's.

    Attributes:
        policy: keys of the policy; another ``name`` starts from the defaults of that one.
        speech: when heard words may be relied on.
    """

    nothing_else: ClassVar[str] = "all targets share models, chunks and one ear"
    policy: dict[str, Any] = Field(default_factory=dict)
    speech: TargetSpeech = TargetSpeech()
