"""Greedy drafts with the attention rows of their tokens, from a served translation model."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from alignatt_agent.engine.requests import EXTRA, PROMPT, SUFFIX, wish
from alignatt_agent.engine.served import ServedModel
from alignatt_agent.nouns import AttentionRows, Draft, EngineError, FloatArray, Prompt, Readout


class DraftEngine:
    """The translation engine of the cascade (``nouns.TranslationEngine``).

    Args:
        model: a served model whose workers capture attention.
        heads: the heads that its workers capture.
        stops: ids that end a turn.
    """

    def __init__(
        self, model: ServedModel, heads: Sequence[tuple[int, int]], stops: frozenset[int]
    ) -> None:
        self._model = model
        self._places = {head: place for place, head in enumerate(heads)}
        self._stops = stops
        # Unique among all that ever asked this model: a stale request must never be taken for ours.
        self._name = uuid.uuid4().hex
        self._numbers = itertools.count()

    def draft(self, prompt: Prompt, max_tokens: int, readout: Readout | None = None) -> Draft:
        """Continue ``prompt`` greedily, see ``nouns.TranslationEngine``."""
        if max_tokens < 1:
            raise EngineError(f"{self._model.name}: a draft of {max_tokens} tokens was asked for")
        # The row at the last token exists only once that token was fed, which takes a token more.
        spare = 1 if readout is not None and readout.row == "emitted" else 0
        extra: dict[str, Any] = {}
        if readout is not None:
            key = f"{self._name}-{next(self._numbers)}"
            extra[EXTRA] = self._wish(key, prompt, max_tokens, readout)
        output = self._model.generate(
            {"prompt_token_ids": list(prompt.token_ids)},
            greedy(max_tokens + spare, self._stops, extra),
        )
        tokens, ended = strip_stop(output, self._stops)
        if spare and not ended:
            del tokens[-1:]  # its row does not exist yet
        if not tokens and not ended:
            self._fail(f"no room for a draft after a prompt of {len(prompt.token_ids)} tokens")
        rows = None
        if readout is not None:
            rows = self._rows(key, prompt, len(tokens), readout)
        return Draft(tuple(tokens), ended, rows)

    def _wish(self, key: str, prompt: Prompt, max_tokens: int, readout: Readout) -> dict[str, Any]:
        length = len(prompt.token_ids)
        if not 0 <= prompt.source_start < prompt.source_end <= length:
            self._fail(
                f"the source span {prompt.source_start}:{prompt.source_end} is not inside the "
                f"prompt of {length} tokens"
            )
        unknown = [head for head in readout.heads if head not in self._places]
        if unknown or not readout.heads:
            self._fail(
                f"heads {unknown or 'none'} were asked for, but the engine was started for "
                f"{sorted(self._places)}"
            )
        return wish(
            key=key,
            start=prompt.source_start,
            end=prompt.source_end,
            prompt=length,
            first=length if readout.row == "emitted" else length - 1,
            count=max_tokens,
            heads=[self._places[head] for head in readout.heads],
        )

    def _rows(self, key: str, prompt: Prompt, tokens: int, readout: Readout) -> AttentionRows:
        width = prompt.source_end - prompt.source_start + 2
        total: FloatArray | None = None
        for answer in self._model.ask_workers("alignatt_fetch", key):
            if answer is None:
                self._fail("a worker does not know the request whose rows were asked for")
            shape, data = answer
            part = np.frombuffer(data, np.float32).reshape(shape)
            total = part if total is None else total + part
        if total is None or total.shape[0] < tokens:
            got = 0 if total is None else total.shape[0]
            self._fail(f"{got} attention rows came for {tokens} tokens")
        total = total[:tokens]
        if total.shape[1:] != (len(readout.heads), width):
            self._fail(f"attention rows came in shape {total.shape[1:]}")
        if not np.isfinite(total).all():
            bad = sorted(set(np.nonzero(~np.isfinite(total))[0].tolist()))
            self._fail(f"the attention rows of draft tokens {bad} were not captured")
        return AttentionRows(
            source=np.ascontiguousarray(total[..., :PROMPT]),
            prompt=np.ascontiguousarray(total[..., PROMPT]),
            suffix=np.ascontiguousarray(total[..., SUFFIX]),
        )

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self._model.name}: {cause}")


def greedy(max_tokens: int, stops: frozenset[int], extra: dict[str, Any] | None = None) -> Any:
    """Build vLLM's ``SamplingParams`` of a greedy request that ends at ``stops``."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        stop_token_ids=sorted(stops),
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args=extra or None,
    )


def strip_stop(output: Any, stops: frozenset[int]) -> tuple[list[int], bool]:
    """Return the generated ids without the one that ended the turn, and whether one did."""
    completion = output.outputs[0]
    tokens = list(completion.token_ids)
    ended = completion.finish_reason == "stop"
    while tokens and tokens[-1] in stops:
        tokens.pop()
        ended = True
    return tokens, ended
