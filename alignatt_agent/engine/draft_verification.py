"""Verify expected tokens after a prompt, in the prefill that feeds these tokens.

The model's next token is read from the hidden state of each position. A position whose keys come
from the prefix cache has no hidden state, so its token is not verified.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Expected:
    """Expected ``tokens`` at the end of a prompt of ``length`` tokens, and their verification.

    Attributes:
        begin: position of the query that predicts the first token.
        covered: whether every position so far was computed.
    """

    def __init__(self, tokens: Sequence[int], length: int) -> None:
        self._tokens = list(tokens)
        self._best: list[int] = []
        self._cut = False
        self.begin = length - len(self._tokens) - 1
        self.covered = True

    @property
    def _differs(self) -> bool:
        return bool(self._best) and self._best[-1] != self._tokens[len(self._best) - 1]

    @property
    def over(self) -> bool:
        """Whether a token differs from the model's, was rejected, or cannot be verified."""
        return self._differs or self._cut or not self.covered

    @property
    def agreed(self) -> int:
        """Return the number of leading tokens that are verified and not rejected."""
        verified = len(self._best)
        if self._differs or self._cut:
            verified -= 1
        return verified

    @property
    def next_token(self) -> int | None:
        """Return the model's token after the agreed ones if the request ends there, or ``None``."""
        if self._differs or self._cut:
            return self._best[-1]
        return None

    def due(self, computed: int, count: int) -> range:
        """Return the indices to verify among the ``count`` tokens after ``computed`` tokens."""
        at = self.begin + len(self._best) - computed
        end = self.begin + len(self._tokens) - computed
        if self.over or at == end:
            return range(0)
        # A negative index is a cached position, which has no hidden state in this step.
        self.covered = at >= 0
        if not self.covered:
            return range(0)
        return range(at, min(count, end))

    def note(self, best: Iterable[int]) -> None:
        """Record the model's greedy tokens at the requested positions, in order."""
        for token in best:
            if self._differs:
                return
            self._best.append(token)

    def holds(self, position: int) -> bool:
        """Return whether the model also decodes the token at ``position``."""
        return not self.over or position <= self.begin + self.agreed

    def cut(self, position: int) -> None:
        """Record that a gate rejected a token at the query of ``position``."""
        seen = position - self.begin + 1
        if seen <= len(self._best):
            del self._best[seen:]
            self._cut = True


def read_greedy(
    runner: Any, counts: Mapping[str, int], due: Mapping[str, tuple[Expected, range]]
) -> None:
    """Read the due greedy tokens, after the forward pass and before sampling.

    Both of vLLM's model runners keep the hidden states of a step until its tokens are sampled: one
    row per token, grouped by request in batch order. vLLM also reads the log-probabilities of
    prompts from these states.

    ``counts`` contains the number of tokens that the step feeds, and ``due`` the results of
    ``Expected.due``. Both are keyed by vLLM's request id.
    """
    state = runner.execute_model_state
    # Model runner V2 stores the batch in its state.
    batch = state.input_batch if hasattr(state, "input_batch") else runner.input_batch
    first: dict[str, int] = {}
    total = 0
    for request in batch.req_ids:
        first[request] = total
        total += counts[request]
    places: list[int] = []
    for request, (_, tokens) in due.items():
        places.extend(first[request] + token for token in tokens)
    logits = runner.model.compute_logits(state.hidden_states[places])
    if logits is None:  # another rank holds the logits and samples the tokens
        return
    # Compare in float32, like vLLM's sampler, so that ties give the same token.
    best = logits.float().argmax(-1).tolist()
    for expected, tokens in due.values():
        expected.note(best[: len(tokens)])
        del best[: len(tokens)]
