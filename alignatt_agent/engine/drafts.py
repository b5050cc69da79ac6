"""Request greedy drafts with attention rows from a served translation model."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from alignatt_agent.engine.greedy import fetch, greedy, stop_ids, strip_stop
from alignatt_agent.engine.row_requests import PROMPT, SOURCE, SUFFIX
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import AttentionRows, Draft, EngineError, FloatArray, Prompt
from alignatt_agent.types.engines import Gate, Readout


class DraftEngine:
    """The translation engine of the cascade (``types.TranslationEngine``).

    The workers of ``model`` capture ``heads``. The token ids ``stops`` end a turn; by default, they
    are the model's stop ids.
    """

    def __init__(
        self,
        model: ServedModel,
        heads: Sequence[tuple[int, int]],
        stops: frozenset[int] | None = None,
    ) -> None:
        self._model = model
        self._places = {head: place for place, head in enumerate(heads)}
        self._stops = stop_ids(model) if stops is None else stops

    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Continue ``prompt`` greedily; see ``types.TranslationEngine``."""
        begun = resumed or Draft((), False)
        # An engine without heads captures nothing and cannot verify tokens.
        sure = readout is not None and readout.probabilities
        known = tuple(expected) if self._places and not sure else ()
        unfinished = first = True
        while unfinished:
            before = len(begun.token_ids)
            begun, unfinished = self._continued(prompt, max_tokens, readout, gate, begun, known)
            found = begun.token_ids[before:]
            # Expected tokens after a changed word are often correct; wrong tokens are dropped.
            known = _still_expected(known, found) if first or len(found) > 1 else ()
            first = False
        if not begun.token_ids and not begun.ended:
            self._fail(f"the prompt of {len(prompt.token_ids)} tokens leaves no space for a draft")
        # A draft of the maximum length does not show whether the turn ends there.
        return replace(begun, ended=begun.ended and len(begun.token_ids) < max_tokens)

    def _continued(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None,
        gate: Gate | None,
        begun: Draft,
        expected: Sequence[int] = (),
        cached: bool = True,
    ) -> tuple[Draft, bool]:
        """Send one request that continues ``begun``, or two if a position was cached.

        Returns:
            The draft, and whether decoding must continue because the model's token differs from the
            expected one. The draft then ends with the model's token. If the row of a token is read
            at the token itself (``emitted``), the last row is still missing.
        """
        emitted = readout is not None and readout.row == "emitted"
        ids = [*prompt.token_ids, *begun.token_ids]
        # The row at the last token exists only after this token is fed, so decode one more token.
        room = max_tokens + emitted - len(begun.token_ids)
        if expected:  # the engine always samples a token
            window = self._model.config.max_model_len - len(ids)
            expected = expected[: max(0, min(room, window) - 1)]
        key, asked = uuid.uuid4().hex, None
        if readout is not None or expected:
            asked = self._request(key, prompt, begun, room, readout, gate, expected)
        sampling = greedy(room - len(expected), self._stops, asked)
        if not cached:
            sampling.skip_reading_prefix_cache = True
        if readout is not None and readout.probabilities:
            sampling.logprobs = 0  # only for the sampled ids
        output = self._model.generate({"prompt_token_ids": [*ids, *expected]}, sampling)
        tokens, ended = strip_stop(output, self._stops)
        steps = begun.steps + len(output.outputs[0].token_ids)
        if asked is None:
            return Draft((*begun.token_ids, *tokens), ended, steps=steps), False

        found = fetch(self._model, key)
        follows = [] if found.next_token is None else [found.next_token]
        verified = found.agreed == len(expected)
        if not verified and not follows:
            # A cached position has no query and no hidden state, so it is computed again.
            if not cached:
                self._fail(f"{len(expected) - found.agreed} expected tokens were not computed")
            begun = replace(begun, steps=steps)
            return self._continued(prompt, max_tokens, readout, gate, begun, expected, cached=False)
        if verified:
            tokens, ended = [*expected, *tokens], ended and not follows
        else:  # tokens that were sampled after the last verified token are discarded
            tokens, ended = [*expected[: found.agreed]], follows[0] in self._stops
        cut = found.rejected and bool(follows) and not ended
        unfinished = not verified and not cut and not ended
        if unfinished or (cut and not emitted):
            tokens += follows
        elif emitted and not cut and not ended:
            del tokens[-1:]  # this token has no row yet
        token_ids = (*begun.token_ids, *tokens)
        rows: AttentionRows | None = None
        if readout is not None:
            count = len(token_ids) - (emitted and unfinished)
            rows = self._joined(begun, found.rows, count)
        replay_s = begun.replay_s + found.replay_s
        sure: tuple[float, ...] = ()
        if readout is not None and readout.probabilities:
            places = zip(output.outputs[0].token_ids, output.outputs[0].logprobs, strict=True)
            found_logprobs = np.array([place[token].logprob for token, place in places], np.float32)
            sure = (*begun.probabilities, *np.exp(found_logprobs).tolist())[: len(token_ids)]
        return Draft(token_ids, ended, rows, cut, steps, replay_s, sure), unfinished

    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return the rows of ``token_ids`` after ``prompt``, in one teacher-forced pass.

        Raises:
            EngineError: the engine failed, or does not capture these heads.
        """
        key = uuid.uuid4().hex
        asked = self._request(key, prompt, Draft((), False), len(token_ids), readout)
        sampling = greedy(1, self._stops, asked)
        sampling.skip_reading_prefix_cache = True  # a cached position has no query
        self._model.generate({"prompt_token_ids": [*prompt.token_ids, *token_ids]}, sampling)
        found = fetch(self._model, key)
        return self._joined(Draft((), False), found.rows, len(token_ids))

    def sampled(self, prompt: Prompt, max_tokens: int) -> list[dict[int, float]]:
        """Continue ``prompt`` greedily, without rows.

        Returns:
            The two most likely ids at each position with their log-probabilities, the most likely
            first. The last position may be the end of the turn.
        """
        sampling = greedy(max_tokens, self._stops)
        sampling.logprobs = 2
        output = self._model.generate({"prompt_token_ids": [*prompt.token_ids]}, sampling)
        answer = output.outputs[0]
        return [
            {token: found[token].logprob for token in dict.fromkeys([best, *found])}
            for best, found in zip(answer.token_ids, answer.logprobs, strict=True)
        ]

    def _request(
        self,
        key: str,
        prompt: Prompt,
        begun: Draft,
        count: int,
        readout: Readout | None,
        gate: Gate | None = None,
        expected: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Build the request to the workers for ``count`` rows after those of ``begun``."""
        if readout is None:
            return {"key": key, "expected": [*expected]}
        length = len(prompt.token_ids)
        if not 0 <= prompt.source_start < prompt.source_end <= length:
            self._fail(
                f"the source span {prompt.source_start}:{prompt.source_end} is not in the "
                f"prompt of {length} tokens"
            )
        unknown = [head for head in readout.heads if head not in self._places]
        if unknown or not readout.heads:
            self._fail(
                f"heads {unknown or 'none'} were requested, but the engine was started for "
                f"{sorted(self._places)}"
            )
        held = len(begun.rows.source) if begun.rows is not None else 0
        return {
            "key": key,
            "start": prompt.source_start,
            "end": prompt.source_end,
            "prompt": length,
            "first": length + held - (readout.row == "predicting"),
            "count": count + len(begun.token_ids) - held,
            "heads": [self._places[head] for head in readout.heads],
            "gate": _scan_settings(gate, begun) if gate else None,
            "expected": [*expected],
        }

    def _joined(self, begun: Draft, total: FloatArray | None, count: int) -> AttentionRows:
        """Join the rows of ``begun`` and new rows, ``[rows, heads, 2 + S]``, to ``count`` rows."""
        if total is None:
            self._fail("no worker captures the heads that the engine was started for")
        before = begun.rows
        count -= len(before.source) if before is not None else 0
        if total.shape[0] < count:
            self._fail(f"expected {count} attention rows, one per token, got {total.shape[0]}")
        total = total[:count]
        if not np.isfinite(total).all():
            bad = sorted(set(np.nonzero(~np.isfinite(total))[0].tolist()))
            self._fail(f"the attention rows of draft tokens {bad} were not captured")
        parts = (total[..., columns] for columns in (SOURCE, PROMPT, SUFFIX))
        rows = AttentionRows(*map(np.ascontiguousarray, parts))
        return rows if before is None else before + rows

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self._model.name}: {cause}")


def _still_expected(expected: tuple[int, ...], found: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tokens to expect after ``found``, whose last token was not expected.

    If the unexpected token occurs later in ``expected``, return the tokens after it. If it does
    not, return the tokens after the one that it replaced.
    """
    rest = expected[len(found) - 1 :] if found else ()
    return rest[rest.index(found[-1]) + 1 :] if found and found[-1] in rest else rest[1:]


def _scan_settings(gate: Gate, begun: Draft) -> dict[str, Any]:
    earlier = begun.rows.source if begun.rows is not None else np.zeros((0, 1, 1), np.float32)
    return {
        **gate.settings,
        "frontier": gate.frontier,
        "earlier": (list(earlier.shape), earlier.tobytes()),
    }
