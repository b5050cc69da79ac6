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
from alignatt_agent.types.engines import DraftRequest, Gate, Readout


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

    def draft(self, request: DraftRequest) -> Draft:
        """Continue a prompt greedily; see ``types.TranslationEngine``."""
        drafted = request.resumed or Draft((), False)
        readout = request.readout
        reads_probabilities = readout is not None and readout.probabilities
        # An engine without heads captures nothing and cannot verify tokens. Verified tokens are not
        # sampled, so vLLM returns no probabilities for them and excludes none of them.
        unverified: tuple[int, ...] = ()
        if self._places and not reads_probabilities and not request.excluded:
            unverified = request.expected
        first = True
        unfinished = True
        while unfinished:
            before = len(drafted.token_ids)
            drafted, unfinished = self._continued(request, drafted, unverified)
            new_tokens = drafted.token_ids[before:]
            # Expected tokens after a changed word are often correct; wrong tokens are dropped.
            if first or len(new_tokens) > 1:
                unverified = _still_expected(unverified, new_tokens)
            else:
                unverified = ()
            first = False
        if not drafted.token_ids and not drafted.ended:
            length = len(request.prompt.token_ids)
            self._fail(f"the prompt of {length} tokens leaves no space for a draft")
        # A draft of the maximum length does not show whether the turn ends there.
        ended = drafted.ended and len(drafted.token_ids) < request.max_tokens
        return replace(drafted, ended=ended)

    def _continued(
        self,
        request: DraftRequest,
        begun: Draft,
        expected: tuple[int, ...] = (),
        cached: bool = True,
    ) -> tuple[Draft, bool]:
        """Send one request to vLLM that continues ``begun``, or two if a position was cached.

        ``expected`` is the part of the expected tokens that is not verified yet.

        Returns:
            The draft, and whether decoding must continue because the model's token differs from the
            expected one. The draft then ends with the model's token. If the row of a token is read
            at the token itself (``emitted``), the last row is still missing.
        """
        readout = request.readout
        emitted = readout is not None and readout.row == "emitted"
        ids = [*request.prompt.token_ids, *begun.token_ids]
        room = request.max_tokens - len(begun.token_ids)
        if emitted:
            # The row at the last token exists only after this token is fed, so decode one more.
            room += 1
        if expected:
            window = self._model.config.max_model_len - len(ids)
            longest = min(room, window) - 1  # the engine always samples a token
            expected = expected[: max(0, longest)]
        key = uuid.uuid4().hex
        capture_fields = None
        if readout is not None or expected:
            capture_fields = self._capture_fields(key, request, begun, room, expected)
        sampling = greedy(room - len(expected), self._stops, capture_fields, request.excluded)
        if not cached:
            sampling.skip_reading_prefix_cache = True
        if readout is not None and readout.probabilities:
            sampling.logprobs = 0  # only for the sampled ids
        output = self._model.generate({"prompt_token_ids": [*ids, *expected]}, sampling)
        sampled, ended = strip_stop(output, self._stops)
        steps = begun.steps + len(output.outputs[0].token_ids)
        if capture_fields is None:
            return Draft((*begun.token_ids, *sampled), ended, steps=steps), False

        capture = fetch(self._model, key)
        next_token = capture.next_token
        verified = capture.agreed == len(expected)
        if not verified and next_token is None:
            # A cached position has no query and no hidden state, so it is computed again.
            if not cached:
                self._fail(f"{len(expected) - capture.agreed} expected tokens were not computed")
            begun = replace(begun, steps=steps)
            return self._continued(request, begun, expected, cached=False)
        if verified:
            tokens = [*expected, *sampled]
            # With a next token, the worker forced the end of the turn (``early_stop``).
            ended = ended and next_token is None
        else:
            # Tokens that were sampled after the last verified token are discarded.
            tokens = [*expected[: capture.agreed]]
            ended = next_token in self._stops
        cut = capture.rejected and next_token is not None and not ended
        unfinished = not verified and not cut and not ended
        if next_token is not None and (unfinished or (cut and not emitted)):
            tokens.append(next_token)
        elif emitted and not cut and not ended:
            del tokens[-1:]  # this token has no row yet
        token_ids = (*begun.token_ids, *tokens)

        rows: AttentionRows | None = None
        probabilities: tuple[float, ...] = ()
        if readout is not None:
            count = len(token_ids)
            if emitted and unfinished:
                count -= 1  # the next request feeds the last token and returns its row
            rows = self._joined(begun, capture.rows, count)
            if readout.probabilities:
                probabilities = (*begun.probabilities, *_sampled_probabilities(output))
        draft = Draft(
            token_ids=token_ids,
            ended=ended,
            rows=rows,
            cut=cut,
            steps=steps,
            replay_s=begun.replay_s + capture.replay_s,
            probabilities=probabilities[: len(token_ids)],
        )
        return draft, unfinished

    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return the rows of ``token_ids`` after ``prompt``, in one teacher-forced pass.

        Raises:
            EngineError: the engine failed, or does not capture these heads.
        """
        key = uuid.uuid4().hex
        nothing = Draft((), False)
        request = DraftRequest(prompt, len(token_ids), readout)
        capture_fields = self._capture_fields(key, request, nothing, request.max_tokens)
        sampling = greedy(1, self._stops, capture_fields)
        sampling.skip_reading_prefix_cache = True  # a cached position has no query
        self._model.generate({"prompt_token_ids": [*prompt.token_ids, *token_ids]}, sampling)
        capture = fetch(self._model, key)
        return self._joined(nothing, capture.rows, len(token_ids))

    def sampled(self, prompt: Prompt, max_tokens: int) -> list[dict[int, float]]:
        """Continue ``prompt`` greedily, without rows.

        Returns:
            The two most likely ids at each position with their log-probabilities, the most likely
            first. The last position may be the end of the turn.
        """
        sampling = greedy(max_tokens, self._stops)
        sampling.logprobs = 2
        output = self._model.generate({"prompt_token_ids": [*prompt.token_ids]}, sampling)
        completion = output.outputs[0]
        positions = []
        for best, candidates in zip(completion.token_ids, completion.logprobs, strict=True):
            # Greedy decoding sampled the most likely id, so it comes first.
            logprobs = {best: candidates[best].logprob}
            for token, candidate in candidates.items():
                logprobs[token] = candidate.logprob
            positions.append(logprobs)
        return positions

    def _capture_fields(
        self,
        key: str,
        request: DraftRequest,
        begun: Draft,
        count: int,
        expected: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        """Build the request to the workers for ``count`` rows after those of ``begun``."""
        prompt = request.prompt
        readout = request.readout
        if readout is None:
            return {"key": key, "expected": [*expected]}
        length = len(prompt.token_ids)
        if not 0 <= prompt.source_start < prompt.source_end <= length:
            self._fail(
                f"the source span {prompt.source_start}:{prompt.source_end} is not in the "
                f"prompt of {length} tokens"
            )
        uncaptured = [head for head in readout.heads if head not in self._places]
        if uncaptured or not readout.heads:
            self._fail(
                f"heads {uncaptured or 'none'} were requested, but the engine was started for "
                f"{sorted(self._places)}"
            )
        earlier_rows = 0
        if begun.rows is not None:
            earlier_rows = len(begun.rows.source)
        first = length + earlier_rows
        if readout.row == "predicting":
            first -= 1
        gate_settings = None
        if request.gate is not None:
            gate_settings = _scan_settings(request.gate, begun)
        return {
            "key": key,
            "start": prompt.source_start,
            "end": prompt.source_end,
            "prompt": length,
            "first": first,
            # The last token of ``begun`` may have no row yet.
            "count": count + len(begun.token_ids) - earlier_rows,
            "heads": [self._places[head] for head in readout.heads],
            "gate": gate_settings,
            "expected": [*expected],
        }

    def _joined(self, begun: Draft, total: FloatArray | None, count: int) -> AttentionRows:
        """Join the rows of ``begun`` and new rows, ``[rows, heads, 2 + S]``, to ``count`` rows."""
        if total is None:
            self._fail("no worker captures the heads that the engine was started for")
        before = begun.rows
        if before is not None:
            count -= len(before.source)
        if total.shape[0] < count:
            self._fail(f"expected {count} attention rows, one per token, got {total.shape[0]}")
        total = total[:count]
        # The worker marks a row whose query it did not capture with NaN.
        finite = np.isfinite(total)
        if not finite.all():
            bad = sorted(set(np.nonzero(~finite)[0].tolist()))
            self._fail(f"the attention rows of draft tokens {bad} were not captured")
        rows = AttentionRows(
            source=np.ascontiguousarray(total[..., SOURCE]),
            prompt=np.ascontiguousarray(total[..., PROMPT]),
            suffix=np.ascontiguousarray(total[..., SUFFIX]),
        )
        return rows if before is None else before + rows

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self._model.name}: {cause}")


def _still_expected(expected: tuple[int, ...], drafted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tokens to expect after ``drafted``, whose last token was not expected.

    If the unexpected token occurs later in ``expected``, return the tokens after it. If it does
    not, return the tokens after the one that it replaced.
    """
    if not drafted:
        return ()
    unexpected = drafted[-1]
    rest = expected[len(drafted) - 1 :]
    if unexpected in rest:
        return rest[rest.index(unexpected) + 1 :]
    return rest[1:]


def _sampled_probabilities(output: Any) -> list[float]:
    """Return the probabilities of the sampled ids."""
    completion = output.outputs[0]
    logprobs = []
    for token, candidates in zip(completion.token_ids, completion.logprobs, strict=True):
        logprobs.append(candidates[token].logprob)
    probabilities: list[float] = np.exp(np.array(logprobs, np.float32)).tolist()
    return probabilities


def _scan_settings(gate: Gate, begun: Draft) -> dict[str, Any]:
    earlier = np.zeros((0, 1, 1), np.float32)
    if begun.rows is not None:
        earlier = begun.rows.source
    return {
        **gate.settings,
        "frontier": gate.frontier,
        "earlier": (list(earlier.shape), earlier.tobytes()),
    }
