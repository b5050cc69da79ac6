"""Greedy drafts by Transformers, for comparison with the drafts of the served engine."""

from typing import Any

import torch
from torch.nn.functional import pad

from alignatt_agent.engine.greedy import joined_ids
from alignatt_agent.engine.transformers_engine import TransformersEngine, cut_rows
from alignatt_agent.types import Draft
from alignatt_agent.types.engines import DraftRequest, Readout


class RowRecorder:
    """Collects the wanted rows of successive forward passes over one sequence.

    ``wanted`` is the number of queries at the end of the next pass whose rows are read.
    """

    def __init__(self, engine: "Reference", readout: Readout) -> None:
        self.wanted = 0
        self._engine, self._readout = engine, readout
        self._length = 0
        self._rows: list[torch.Tensor] = []

    def run(self, ids: list[int], **options: Any) -> Any:
        """Run a forward pass, store its rows and return its output."""
        output = self._engine._forward(ids, output_attentions=True, **options)
        matrices = self._engine._matrices(output)
        last = slice(len(ids) - self.wanted, None)
        self._add(ids, [matrices[layer][0, head, last] for layer, head in self._readout.heads])
        return output

    def _add(self, ids: list[int], rows: list[torch.Tensor]) -> None:
        self._length += len(ids)
        if self.wanted:
            # Layers with a sliding window cache only the end of the sequence.
            padded = [pad(row.float(), (self._length - row.shape[1], 0)) for row in rows]
            self._rows.append(torch.stack(padded, 1))

    def rows(self, length: int) -> torch.Tensor:
        """Return ``[rows, heads, length]`` over all positions of the sequence, in float32."""
        # Without a pass there are no rows, which need a shape as well.
        parts = [torch.zeros(0, len(self._readout.heads), length)]
        for rows in self._rows:
            # Rows of an early pass are shorter, and the last one may be longer than the draft.
            padded = pad(rows, (0, length))[..., :length]
            parts.append(padded.cpu())
        return torch.cat(parts)


class Reference(TransformersEngine):
    """A Transformers model as a ``types.TranslationEngine``; ``stops`` are ids that end a turn.

    ``recorder`` reads the rows of the attention function.
    """

    recorder: type[RowRecorder] = RowRecorder

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        ids = getattr(self.tokenizer, "eos_token_id", None)
        self.stops = joined_ids(self.model.generation_config.eos_token_id, ids)

    @torch.inference_mode()
    def draft(self, request: DraftRequest) -> Draft:
        """Continue a prompt greedily, see ``types.TranslationEngine``.

        ``gate``, ``resumed`` and ``expected`` are ignored: every draft is decoded whole.
        """
        prompt = request.prompt
        max_tokens = request.max_tokens
        readout = request.readout
        if max_tokens < 1:
            self._fail(f"a draft of {max_tokens} tokens was requested")
        recorder = None
        if readout is not None:
            self._check_heads(readout)
            recorder = self.recorder(self, readout)
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
            forward = self._forward if recorder is None else recorder.run
            output = forward(feed, use_cache=True, past_key_values=cache)
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
        probabilities = tuple(sure[: len(tokens)])
        return Draft(tuple(tokens), ended, rows, steps=steps, probabilities=probabilities)
