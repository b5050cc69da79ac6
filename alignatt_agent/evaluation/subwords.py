"""Detect logs whose units are subwords, and determine which subwords the scorers join.

An evaluation YAML states how Simulstream joins the units. ``detokenizer_type: simuleval``
concatenates them (``latency_unit: word`` with spaces, ``char`` without spaces, ``spm`` like
SentencePiece). ``hf`` uses the tokenizer of a Transformers processor; ``canary`` uses a NeMo
model. If subwords are joined as words, scores are near zero and no error is reported.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.yaml_text import read_yaml

SENTENCEPIECE, BYTE_LEVEL, WORDPIECE = "SentencePiece", "byte-level BPE", "WordPiece"
SUBWORD_NMT = "subword-nmt"
MARKS = {
    SENTENCEPIECE: re.compile("▁"),
    BYTE_LEVEL: re.compile("Ġ"),
    # "##" alone is a heading of Markdown, not a subword.
    WORDPIECE: re.compile("##."),
    SUBWORD_NMT: re.compile(".+(@@|</w>)$"),
}
"""Patterns of marked pieces; subword-nmt and its older form ``</w>`` mark the end of a piece."""

SHARE = 0.05
"""Share of marked units above which units count as subwords. Small tokenizers of the three kinds
mark at least 25 % of a dev-low log. Among whole words, only some Maltese names begin with Ġ."""

REMEDY = (
    "write a YAML file that states how to join the units, and pass it with --log-config; "
    "`simulstream-eval --help` shows the keys"
)


def kind_of_pieces(units: Sequence[str]) -> tuple[str, str] | None:
    """Return the kind of subwords in a log (see ``MARKS``) and an example; ``None`` for words."""
    for kind, pattern in MARKS.items():
        marked = [unit for unit in units if pattern.match(unit)]
        if len(marked) > SHARE * len(units):
            return kind, marked[0]
    return None


def joined_pieces(config: Path) -> Sequence[str]:
    """Return the kinds of subwords that an evaluation YAML joins; empty without such a file."""
    if not config.is_file():
        return ()
    settings = read_yaml(config)
    if settings.get("detokenizer_type") != "simuleval":
        return tuple(MARKS)
    if settings.get("latency_unit") == "spm":
        return (SENTENCEPIECE,)
    return ()
