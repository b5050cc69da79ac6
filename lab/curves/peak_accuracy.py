"""How often the attention peak of the gate is the word that a token translates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from alignatt_agent.calibration.pairs import PairError, PairsError
from alignatt_agent.calibration.pairs_file import read_pairs
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.translation_score import AlignedPair, RowReader, hits
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import language
from alignatt_agent.policy.rows import PeakFilter
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import FloatArray
from alignatt_agent.types.engines import Readout
from lab.curves.runs import PointRun

_CONTEXT = 2048


def aligned_pairs(
    spec: str, source: str, target: str, tokenizer: Any, config: AgentConfig
) -> list[AlignedPair]:
    """Read pairs with gold alignments and lay them out as the agent does."""
    spoken, written = language(source), language(target)
    spec = spec.replace("{target}", target)
    context = int(config.models.translation.engine.get("max_model_len", _CONTEXT))
    builder = PromptBuilder.of(tokenizer, config.prompt, spoken, written)
    prompter = PairPrompter(tokenizer, builder, context)
    found = []
    for pair in read_pairs(spec, spoken, written).pairs:
        if pair.gold is not None:
            try:
                found.append(prompter(pair, pair.gold))
            except PairError:
                continue
    if not found:
        raise PairsError(f"{spec} holds no pair whose gold alignment can be used")
    return found


def peak_accuracy(
    reader: RowReader, pairs: Sequence[AlignedPair], runs: Iterable[PointRun]
) -> dict[str, float]:
    """Return, for every run, the share of aligned target tokens whose peak hits.

    Gold translations are fed whole (teacher forcing), so this judges heads and filters alone,
    apart from transcripts and drafts.
    """

    @cache
    def rows(readout: Readout) -> list[FloatArray]:
        return [reader.rows(pair.prompt, pair.target_ids, readout).source for pair in pairs]

    found = {}
    for run in runs:
        policy = run.policy
        judged = []
        readout = run.resolved.head_sets[run.target].readout(policy.top_k)
        for source, pair in zip(rows(readout), pairs, strict=True):
            gate = PeakFilter(policy.normalize, policy.median_width, policy.median)
            judged.append(hits(np.stack([gate(row) for row in source]), pair))
        found[run.name] = float(np.concatenate(judged).mean())
    return found
