"""Logs whose units are subwords: their kind, and how to join them.

An evaluation YAML tells Simulstream how to join the units. ``detokenizer_type: simuleval``
concatenates them (``latency_unit: word`` with spaces, ``char`` without, ``spm`` as SentencePiece
does); ``hf`` uses the tokenizer of a Transformers processor, ``canary`` a NeMo model. Pieces that
are joined as words score near zero without any error.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml

SENTENCEPIECE, BYTE_LEVEL, WORDPIECE = "SentencePiece", "byte-level BPE", "WordPiece"
MARKS = {SENTENCEPIECE: "▁", BYTE_LEVEL: "Ġ", WORDPIECE: "##"}

SHARE = 0.05
"""Share of units that begin with a mark. In a dev-low log cut by small tokenizers of the three
kinds, 25 % and more do; of words only some Maltese names (Ġ)."""

REMEDY = (
    "state in a YAML file how to join them and name the file with --log-config; "
    "`simulstream-eval --help` shows the keys"
)


def kind_of_pieces(units: Sequence[str]) -> tuple[str, str] | None:
    """Return which of ``MARKS`` the units of a log carry, with an example; ``None`` for words."""
    for kind, mark in MARKS.items():
        marked = [unit for unit in units if unit.startswith(mark) and unit != "##"]
        if len(marked) > SHARE * len(units):
            return kind, marked[0]
    return None


def joined_pieces(config: Path) -> Sequence[str]:
    """Return the kinds of pieces that an evaluation YAML joins; none without such a file."""
    if not config.is_file():
        return ()
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    if settings.get("detokenizer_type") != "simuleval":
        return tuple(MARKS)
    return (SENTENCEPIECE,) if settings.get("latency_unit") == "spm" else ()
