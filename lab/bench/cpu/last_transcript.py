"""A proposer for vLLM's speculative decoding: what the recogniser said last."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = "ALIGNATT_LAST_TRANSCRIPT"
"""Environment variable with the folder through which ``expect`` reaches the engine's process."""


def expect(prompt_end: Sequence[int], tokens: Sequence[int]) -> None:
    """Say how the next answer probably reads."""
    _wanted().write_text(json.dumps([[*prompt_end], [*tokens]]))


def passes() -> int:
    """Return how many forward passes were sampled from so far."""
    return _count().stat().st_size if _count().exists() else 0


def _wanted() -> Path:
    return Path(os.environ[FOLDER]) / "wanted.json"


def _count() -> Path:
    return Path(os.environ[FOLDER]) / "passes"


class Proposer:
    """What vLLM asks after every forward pass, one request at a time."""

    def __init__(self, vllm_config: Any) -> None:
        self._most = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, *_: Any, **__: Any) -> None:
        """Nothing to load."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: Sequence[int],
        token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Return what follows in the expected answer, as long as the answer agrees with it."""
        with _count().open("a") as file:
            file.write(".")
        end, expected = json.loads(_wanted().read_text()) if _wanted().exists() else ([], [])
        proposed = []
        for i, sampled in enumerate(sampled_token_ids):
            ids = token_ids_cpu[i, : int(num_tokens_no_spec[i])].tolist()
            begin = _behind(ids, end) if sampled and end else len(ids)
            said = ids[begin:]
            agrees = bool(said) and said == expected[: len(said)]
            proposed.append(expected[len(said) : len(said) + self._most] if agrees else [])
        return proposed


def _behind(ids: list[int], end: list[int]) -> int:
    """Index behind the last place of ``end`` in ``ids``."""
    places = range(len(ids) - len(end), -1, -1)
    return next((at + len(end) for at in places if ids[at : at + len(end)] == end), len(ids))
