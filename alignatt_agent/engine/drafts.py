"""Greedy drafts with the attention rows of their tokens, from a served translation model."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from alignatt_agent.engine.row_requests import EXTRA, PROMPT, SOURCE, SUFFIX, wish
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import (
    AttentionRows,
    Draft,
    EngineError,
    FloatArray,
    Gate,
    Prompt,
    Readout,
)


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

    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
    ) -> Draft:
        """Continue ``prompt`` greedily, see ``nouns.TranslationEngine``."""
        begun = resumed or Draft((), False)
        room = max_tokens - len(begun.token_ids)
        if room < 1:
            self._fail(
                f"a draft of {max_tokens} tokens was asked for, after {len(begun.token_ids)} tokens"
            )
        if gate is not None and readout is None:
            self._fail("a gate needs a readout")
        # The row at the last token exists only once that token was fed, which takes a token more.
        spare = 1 if readout is not None and readout.row == "emitted" else 0
        key = ""
        extra: dict[str, Any] = {}
        if readout is not None:
            key, extra = self._ask(prompt, len(begun.token_ids), room, readout)
            extra[EXTRA]["gate"] = _scan_settings(gate, begun) if gate else None
        output = self._model.generate(
            {"prompt_token_ids": [*prompt.token_ids, *begun.token_ids]},
            greedy(room + spare, self._stops, extra),
        )
        steps = begun.steps + len(output.outputs[0].token_ids)
        tokens, ended = strip_stop(output, self._stops)
        fetched = self._fetch(key) if readout is not None else None
        cut = fetched is not None and fetched.next_token is not None
        if fetched is not None and fetched.next_token is not None:
            ended = False
            if not spare:
                tokens.append(fetched.next_token)
        elif spare and not ended:
            del tokens[-1:]  # its row does not exist yet
        if not tokens and not ended:
            length = len(prompt.token_ids) + len(begun.token_ids)
            self._fail(f"no room for a draft after a prompt of {length} tokens")
        rows = None
        replay_s = begun.replay_s
        if readout is not None and fetched is not None:
            replay_s += fetched.replay_s
            rows = self._joined(begun, self._checked(fetched.rows, prompt, len(tokens), readout))
        return Draft(begun.token_ids + tuple(tokens), ended, rows, cut, steps, replay_s)

    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Read the rows of given target tokens in one pass (teacher forcing).

        Args:
            prompt: what comes before the tokens.
            token_ids: target ids, one row each.
            readout: heads and query.

        Raises:
            EngineError: the engine failed, or does not capture these heads.
        """
        key, extra = self._ask(prompt, 0, len(token_ids), readout)
        sampling = greedy(1, self._stops, extra)
        sampling.skip_reading_prefix_cache = True  # a cached position has no query
        self._model.generate({"prompt_token_ids": [*prompt.token_ids, *token_ids]}, sampling)
        return self._checked(self._fetch(key).rows, prompt, len(token_ids), readout)

    def _ask(
        self, prompt: Prompt, begun: int, count: int, readout: Readout
    ) -> tuple[str, dict[str, Any]]:
        """Return a new key and the request's extra arguments for ``count`` rows."""
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
        key = f"{self._name}-{next(self._numbers)}"
        return key, {
            EXTRA: wish(
                key=key,
                start=prompt.source_start,
                end=prompt.source_end,
                prompt=length,
                first=length + begun - (readout.row == "predicting"),
                count=count,
                heads=[self._places[head] for head in readout.heads],
            )
        }

    def _fetch(self, key: str) -> _Fetched:
        total: FloatArray | None = None
        next_token: int | None = None
        replay_s = 0.0
        for answer in self._model.ask_workers("alignatt_fetch", key):
            if answer is None:
                self._fail("a worker does not know the request whose rows were asked for")
            shape, data, token, seconds = answer
            next_token = token if next_token is None else next_token
            replay_s = max(replay_s, seconds)  # ranks compute side by side
            if not shape:
                continue
            part = np.frombuffer(data, np.float32).reshape(shape)
            if total is not None and part.shape != total.shape:
                self._fail(f"workers captured rows of shapes {total.shape} and {part.shape}")
            total = part if total is None else total + part
        if total is None:
            self._fail("no worker captures the heads that it was started for")
        return _Fetched(total, next_token, replay_s)

    def _checked(
        self, total: FloatArray, prompt: Prompt, tokens: int, readout: Readout
    ) -> AttentionRows:
        if total.shape[0] < tokens:
            self._fail(f"{total.shape[0]} attention rows came for {tokens} tokens")
        total = total[:tokens]
        if total.shape[1:] != (len(readout.heads), 2 + len(prompt.token_word)):
            self._fail(f"attention rows came in shape {total.shape[1:]}")
        if not np.isfinite(total).all():
            bad = sorted(set(np.nonzero(~np.isfinite(total))[0].tolist()))
            self._fail(f"the attention rows of draft tokens {bad} were not captured")
        return AttentionRows(
            source=np.ascontiguousarray(total[..., SOURCE]),
            prompt=np.ascontiguousarray(total[..., PROMPT]),
            suffix=np.ascontiguousarray(total[..., SUFFIX]),
        )

    def _joined(self, begun: Draft, rows: AttentionRows) -> AttentionRows:
        if not begun.token_ids:
            return rows
        if begun.rows is None or begun.rows.source.shape[1:] != rows.source.shape[1:]:
            self._fail("a draft can only be resumed with the rows of the same prompt and readout")
        return AttentionRows(
            np.concatenate([begun.rows.source, rows.source]),
            np.concatenate([begun.rows.prompt, rows.prompt]),
            np.concatenate([begun.rows.suffix, rows.suffix]),
        )

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self._model.name}: {cause}")


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What the workers hand over.

    Attributes:
        rows: ``[rows, heads, 2 + S]``.
        next_token: the token that was not sampled.
        replay_s: seconds that the rows took.
    """

    rows: FloatArray
    next_token: int | None
    replay_s: float


def _scan_settings(gate: Gate, begun: Draft) -> dict[str, Any]:
    earlier = begun.rows.source if begun.rows is not None else np.zeros((0, 1, 1), np.float32)
    return {
        **gate.settings,
        "frontier": gate.frontier,
        "earlier": (list(earlier.shape), earlier.tobytes()),
    }


def greedy(max_tokens: int, stops: frozenset[int], extra: dict[str, Any] | None = None) -> Any:
    """Build vLLM's ``SamplingParams`` of a greedy request that ends at ``stops``."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        stop_token_ids=sorted(stops),
        ignore_eos=not stops,
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
