"""The three engines of the cascade behind a memo: heard once, drafted once, replayed often.

Only whole drafts are remembered. They depend on nothing but the prompt, so every policy, frontier
and hold-back shares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from alignatt_agent.cascade import Engines
from alignatt_agent.evaluation.cache import Memo, key_of
from alignatt_agent.evaluation.hearing import RememberedAligner, RememberedRecognizer
from alignatt_agent.types import AttentionRows, Draft, Gate, Prompt, Readout, TranslationEngine

# A pickle names its class, but not the fields: results of an older form must not be recalled.
_FORM = repr([(kind, kind.__slots__) for kind in (AttentionRows, Draft)])


def remember(
    engines: Engines, memo: Memo, names: Mapping[str, str], shared: Sequence[Readout] = ()
) -> Engines:
    """Put ``engines`` behind ``memo``.

    Args:
        engines: as ``cascade.load_engines`` returns them.
        memo: where results go.
        names: by role, what identifies a checkpoint and how it runs.
        shared: readouts that serve every request for some of their heads.
    """
    return replace(
        engines,
        asr=RememberedRecognizer(engines.asr, memo, names["asr"]),
        aligner=RememberedAligner(engines.aligner, memo, names["aligner"]),
        translation=RememberedDrafts(engines.translation, memo, names["translation"], shared),
    )


class RememberedDrafts:
    """A translation engine that drafts the same prompt once.

    Args:
        engine: drafts what is not remembered.
        memo: where drafts go.
        name: what identifies the checkpoint and how it runs.
        shared: readouts that serve every request for some of their heads.
    """

    def __init__(
        self, engine: TranslationEngine, memo: Memo, name: str, shared: Sequence[Readout] = ()
    ) -> None:
        self._engine, self._memo, self._name = engine, memo, name
        self._shared = sorted(shared, key=lambda readout: len(readout.heads))

    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Return the whole draft of ``prompt``, see ``types.TranslationEngine``.

        Raises:
            ValueError: a gate or a begun draft came; such drafts depend on the policy.
        """
        if gate is not None or resumed is not None:
            raise ValueError("only whole drafts are remembered: run with early_stop: false")
        asked = self._serving(readout)
        key = key_of(
            "draft",
            _FORM,
            self._name,
            np.asarray(prompt.token_ids, np.int64).tobytes(),
            prompt.source_start,
            prompt.source_end,
            max_tokens,
            repr(asked),
        )
        whole = self._memo.recall(
            key, lambda: self._engine.draft(prompt, max_tokens, asked, expected=expected)
        )
        if readout is None or asked is None or readout.heads == asked.heads:
            return whole
        assert whole.rows is not None
        places = [asked.heads.index(head) for head in readout.heads]
        rows = (whole.rows.source, whole.rows.prompt, whole.rows.suffix)
        return replace(whole, rows=AttentionRows(*(part[:, places] for part in rows)))

    def _serving(self, readout: Readout | None) -> Readout | None:
        if readout is None:
            return None
        for shared in self._shared:
            same = (shared.row, shared.probabilities) == (readout.row, readout.probabilities)
            if same and set(readout.heads) <= set(shared.heads):
                return shared
        return readout
