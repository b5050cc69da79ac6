"""Head sets of the micro translation model from gold alignments."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from alignatt_agent.calibration.translation_score import (
    AlignedPair,
    Row,
    averaged_score,
    score,
)
from alignatt_agent.languages import language
from alignatt_agent.micro import training
from alignatt_agent.micro.corpus import TARGETS, sentences
from alignatt_agent.translation.prompt import PromptBuilder

TOP_K = 8
CALIBRATION_SEED, HELD_OUT_SEED = 77, 78


def aligned_pairs(tokenizer: Any, code: str, count: int, seed: int) -> list[AlignedPair]:
    """Draw held-out sentences with gold alignments, laid out as at run time."""
    builder = PromptBuilder(tokenizer, "English", language(code).name)
    pairs = []
    for pair in islice(sentences(seed, held_out=True), count):
        side = pair.targets[code]
        encoding = tokenizer(side.text, add_special_tokens=False, return_offsets_mapping=True)
        piece_of_char = [i for i, piece in enumerate(side.pieces) for _ in piece]
        words = tuple(side.align[piece_of_char[end - 1]] for _, end in encoding["offset_mapping"])
        pairs.append(AlignedPair(builder.build(pair.words), tuple(encoding["input_ids"]), words))
    return pairs


def write_head_sets(
    checkpoint: Path, folder: Path, *, name: str, row: Row = "predicting", count: int = 60
) -> dict[str, dict[str, float]]:
    """Score all heads and write ``micro-en-XX.json`` for every direction.

    Args:
        checkpoint: folder of the micro translation model.
        folder: where the head sets go.
        name: the model's name in the configurations.
        row: the row convention to calibrate for.
        count: pairs for selection, and as many others for the printed figures.

    Returns:
        Per direction the head-averaged score of the set and of all heads, held out.
    """
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    figures = {}
    for code in tqdm(TARGETS, desc="calibration"):
        pairs = aligned_pairs(tokenizer, code, count, CALIBRATION_SEED)
        found = score(model, pairs, row)
        heads = found.best(TOP_K)
        held_out = aligned_pairs(tokenizer, code, count, HELD_OUT_SEED)
        figures[code] = {
            "head_set": averaged_score(model, held_out, row, heads),
            "all_heads": averaged_score(model, held_out, row, None),
        }
        training.write_json(
            folder / f"micro-en-{code}.json",
            {
                "model": name,
                "revision": None,
                "direction": f"en-{code}",
                "prompt_layout": "alignatt_agent.translation.prompt",
                "source_of_alignments": "gold alignments of the micro grammar",
                "n_pairs": count,
                "n_aligned_tokens": found.tokens,
                "row": row,
                "num_layers": found.matrix.shape[0],
                "num_heads": found.matrix.shape[1],
                "heads": [
                    {"layer": a, "head": b, "ts": round(float(found.matrix[a, b]), 4)}
                    for a, b in heads
                ],
                "ts_matrix": [[round(float(x), 4) for x in layer] for layer in found.matrix],
                "held_out": {k: round(v, 4) for k, v in figures[code].items()},
            },
        )
    return figures
