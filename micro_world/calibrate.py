"""Head sets of the micro translation model from gold alignments."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from alignatt_agent.calibration.aligners import Gold
from alignatt_agent.calibration.pairs_file import micro_pairs
from alignatt_agent.calibration.prompted_pair import Layout
from alignatt_agent.calibration.select_heads import Plan, calibrate
from alignatt_agent.calibration.translation_score import AlignedPair, Row
from alignatt_agent.calibration.word_alignment import Links
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.languages import language
from alignatt_agent.translation.prompt import PromptBuilder
from micro_world.corpus import TARGETS

TOP_K = 8
CALIBRATION_SEED, HELD_OUT_SEED = 77, 78
MAX_CONTEXT = 1024


def aligned_pairs(tokenizer: Any, code: str, count: int, seed: int) -> list[AlignedPair]:
    """Draw held-out sentences with gold alignments, laid out as at run time."""
    builder = PromptBuilder(tokenizer, "English", language(code).name)
    layout = Layout(tokenizer, builder, MAX_CONTEXT)
    drawn = micro_pairs(count, seed, language("en"), language(code))
    return [layout(pair, pair.gold or Links.of(())) for pair in drawn.pairs]


def write_head_sets(
    checkpoint: Path, folder: Path, *, name: str, row: Row | None = "predicting", count: int = 60
) -> dict[str, dict[str, float]]:
    """Score all heads and write ``micro-en-XX.json`` for every direction.

    Args:
        checkpoint: folder of the micro translation model.
        folder: where the head sets go.
        name: the model's name in the configurations.
        row: the row convention to calibrate for; ``None`` takes the better one.
        count: pairs for selection, and as many others for the printed figures.

    Returns:
        Per direction the head-averaged score of the set and of all heads, held out.
    """
    figures = {}
    for code in TARGETS:
        source, target = language("en"), language(code)
        with tempfile.TemporaryDirectory(prefix="calibration-") as work:
            done = calibrate(
                Plan(
                    model=ModelConfig(path=str(checkpoint)),
                    name=name,
                    source=source,
                    target=target,
                    pairs=micro_pairs(count, CALIBRATION_SEED, source, target),
                    held_out=micro_pairs(count, HELD_OUT_SEED, source, target),
                    held_out_share=0.0,
                    aligner=Gold(),
                    engine="transformers",
                    output=folder / f"micro-en-{code}.json",
                    row=row,
                    top_k=TOP_K,
                    work=Path(work),
                )
            )
        held_out = done.outcome.rows[done.row].held_out
        figures[code] = {
            "head_set": held_out.head_set[0].value,
            "all_heads": held_out.all_heads[0].value,
        }
    return figures
