"""The ``omnisteval`` command with an alignment that fits into memory for hours of speech.

``python -m alignatt_agent.evaluation.omnisteval_large longform ...`` takes OmniSTEval's arguments
and gives its results to the last bit. OmniSTEval aligns each recording in pure Python, which takes
about 23 bytes and a microsecond per pair of units: 11 GB for two and a half hours. Recordings below
``LARGE`` pairs go through its own code, the others through ``compact_alignment``.
"""

from __future__ import annotations

from typing import Any

from omnisteval import alignment, cli

from alignatt_agent.evaluation.detokenizer import take_any_tokenizer

LARGE = 20_000_000
"""Pairs of units from which the compiled alignment takes over; below it takes seconds anyway."""

original = alignment.align_sequences


def align_sequences(
    seq1: list[Any], seq2: list[Any], char_level: bool
) -> tuple[list[Any], list[Any]]:
    """Do what ``omnisteval.alignment.align_sequences`` does, in bounded memory."""
    align = original
    if len(seq1) * len(seq2) >= LARGE:
        # Importing the compiler takes longer than scoring most logs.
        from alignatt_agent.evaluation.compact_alignment import align_compactly as align
    aligned: tuple[list[Any], list[Any]] = align(seq1, seq2, char_level)
    return aligned


def main() -> None:
    """Run the official command line."""
    alignment.align_sequences = align_sequences
    take_any_tokenizer()
    cli.main()


if __name__ == "__main__":
    main()
