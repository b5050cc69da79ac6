"""Greedy drafts by Transformers, for comparison with the drafts of the served engine."""

from collections.abc import Sequence
from typing import Any

import torch

from alignatt_agent.engine.greedy import joined_ids
from alignatt_agent.engine.transformers_engine import TransformersEngine, cut_rows
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import Gate, Readout


class Reference(TransformersEngine):
    """A Transformers model as a ``types.TranslationEngine``; ``stops`` are ids that end a turn."""

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        ids = getattr(self.tokenizer, "eos_token_id", None)
        self.stops = joined_ids(self.model.generation_config.eos_token_id, ids)

    @torch.inference_mode()
    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Continue ``prompt`` greedily, see ``types.TranslationEngine``.

        ``gate``, ``resumed`` and ``expected`` are ignored: every draft is decoded whole.
        """
        if max_tokens < 1:
            self._fail(f"a draft of {max_tokens} tokens was requested")
        recorder = None if readout is None else self._recorder(readout)
        tokens: list[int] = []
        sure: list[float] = []
        feed = [*prompt.token_ids]
        # The row at the last token exists only after this token is fed, which takes one more token.
        spare = 1 if readout is not None and readout.row == "emitted" else 0
        limit = min(max_tokens + spare, self._context - len(prompt.token_ids))
        if recorder is not None:
            recorder.wanted = 1 - spare
        cache, ended, steps = None, False, 0
        while len(tokens) < limit and not ended:
            output = self._forward(feed, recorder, use_cache=True, past_key_values=cache)
            cache = output.past_key_values
            steps += 1
            feed = [int(output.logits[0, -1].argmax())]
            ended = feed[0] in self.stops
            if not ended:
                tokens += feed
            if readout is not None and readout.probabilities:
                sure.append(float(output.logits[0, -1].float().softmax(-1)[feed[0]]))
            if recorder is not None:
                recorder.wanted = 1
        if spare and not ended:
            del tokens[-1:]
        if not tokens and not ended:
            self._fail(f"no room for a draft after a prompt of {len(prompt.token_ids)} tokens")
        rows = None
        if recorder is not None:
            length = len(prompt.token_ids) + len(tokens)
            rows = cut_rows(recorder.rows(length)[: len(tokens)], prompt)
        known = tuple(sure[: len(tokens)])
        return Draft(tuple(tokens), ended, rows, steps=steps, probabilities=known)
