"""Library interface: token ids and attention rows of chosen heads for any decoder on vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.start import start_model
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import DraftRequest, Readout


class AttentionEngine(DraftEngine):
    """A decoder on vLLM that returns greedy answers with attention rows; it is thread-safe.

    Args:
        path: id on the Hugging Face Hub, or a directory.
        heads: ``(layer, head)`` pairs, in the order of the rows' head axis.
        model: other keys of ``ModelConfig``, such as ``revision``, ``dtype`` and ``engine``.

    Raises:
        EngineError: vLLM did not start, or rows of this mode or layer have not been verified.
    """

    def __init__(self, path: str, heads: Sequence[tuple[int, int]], **model: Any) -> None:
        self.heads = tuple(heads)
        served = start_model("translation", ModelConfig(path=path, **model), self.heads)
        super().__init__(served, self.heads)
        self.tokenizer = served.tokenizer()
        self.shutdown = served.shutdown

    def generate(
        self,
        prompt_ids: Sequence[int],
        max_tokens: int = 128,
        span: tuple[int, int] | None = None,
        row: Literal["emitted", "predicting"] = "emitted",
    ) -> Draft:
        """Continue a prompt greedily; the result contains ``token_ids``, ``rows`` and ``ended``.

        ``span`` is the range of prompt positions, ``[start, end)``, that the rows cover; by
        default, all positions. The remaining mass is in ``rows.prompt`` and ``rows.suffix``.
        ``row`` selects either the query at each new token or the query that predicts it.
        """
        start, end = span or (0, len(prompt_ids))
        prompt = Prompt(tuple(prompt_ids), start, tuple(range(end - start)))
        return self.draft(DraftRequest(prompt, max_tokens, Readout(self.heads, row)))

    def __enter__(self) -> AttentionEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
