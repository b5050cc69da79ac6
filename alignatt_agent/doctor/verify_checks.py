"""What ``alignatt doctor`` says of drafts that are verified instead of decoded again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from alignatt_agent.doctor.machine_checks import Check
from alignatt_agent.types import Prompt, Readout, TranslationEngine


class Asked(Protocol):
    """A request of the doctor."""

    @property
    def prompt(self) -> Prompt:
        """What to continue."""

    @property
    def readout(self) -> Readout:
        """The rows that it asks for."""


def verification(
    drafts: TranslationEngine, cases: Sequence[Asked], tokens: int, dtype: str
) -> Check:
    """Compare decoded drafts with the same ones verified in one pass.

    In float32 they have to be equal. In other types a prefill and a decoding step round
    differently, so that near-ties may fall the other way.
    """
    name, same, steps = "verified drafts", 0, [0, 0]
    for case in cases:
        usual = drafts.draft(case.prompt, tokens, case.readout)
        draft = drafts.draft(case.prompt, tokens, case.readout, expected=usual.token_ids)
        same += (draft.token_ids, draft.ended) == (usual.token_ids, usual.ended)
        steps = [steps[0] + usual.steps, steps[1] + draft.steps]
    found = f"{same} of {len(cases)} are the decoded ones, {steps[1]}/{steps[0]} steps"
    if same == len(cases):
        return Check(name, "ok", found)
    fix = "set debug.verify_drafts and debug.verify_transcripts to false, and report this output"
    return Check(name, "FAIL" if dtype == "float32" else "warn", found, fix)
