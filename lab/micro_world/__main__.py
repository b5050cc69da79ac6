"""Rebuild the embedded models and the dev set.

An interrupted part is resumed, and a finished part is only written again. Results are reproducible
on the same machine with the same number of threads.

Examples:
  build all parts, one after the other:
    python -m lab.micro_world
  build two parts:
    python -m lab.micro_world recognizer aligner
  run a short trial:
    python -m lab.micro_world --scale 0.01 --output outputs/trial --work outputs/trial-work
  generate another dev set:
    python -m lab.micro_world devset --devset-seed 5000 --sentences 350 --output outputs/tuning
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch
from transformers import AutoTokenizer

from lab import commands
from lab.micro_world import devset, tokenizers, train_aligner, train_speech, train_translation

TRAININGS = {
    "translation": ("gemma4", train_translation.train),
    "recognizer": ("qwen3-asr", train_speech.train),
    "aligner": ("qwen3-aligner", train_aligner.train),
}
PARTS = ("tokenizers", "devset", *TRAININGS)


def main() -> None:
    """Rebuild the given parts."""
    parser = build_parser()
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"unknown part {', '.join(unknown)}; expected {', '.join(PARTS)}")
    if options.further and not set(options.parts or PARTS) <= {"translation", "recognizer"}:
        parser.error("--further is only for the parts translation and recognizer")
    torch.set_num_threads(options.threads)
    parts = options.parts or PARTS
    # Trainings need the tokenizers, and the aligner's training needs the recognizer.
    for part in PARTS:
        if part in parts:
            _build(part, options)


def _build(part: str, options: Namespace) -> None:
    if part == "tokenizers":
        tokenizers.write(options.output)
    elif part == "devset":
        folder = options.output / "devset"
        devset.write(folder, options.devset_seed, options.sentences, options.linked)
    else:
        model, train = TRAININGS[part]
        folder = options.output / model
        tokenizer = AutoTokenizer.from_pretrained(folder)
        # The aligner's training has no such argument.
        more: dict[str, bool] = {}
        if options.further:
            more["further"] = True
        train(folder, tokenizer, options.work, options.scale, **more)


def build_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = commands.parser("lab.micro_world", __doc__)
    add = parser.add_argument
    parts = f"{', '.join(PARTS)}; default: all. Training needs the tokenizers in --output"
    add("parts", nargs="*", metavar="PART", help=parts)
    add("--output", type=Path, default=Path("micro_models"))
    work = "folder for checkpoints of interrupted training (%(default)s)"
    add("--work", type=Path, default=Path("outputs/micro_world"), help=work)
    add("--threads", type=int, default=2, help="number of CPU threads for training")
    add("--scale", type=float, default=1.0, help="fraction of the training steps (a trial: 0.01)")
    add("--further", action="store_true", help="continue from the checkpoints in --output")
    seed = "seed of the held-out sentences; another seed gives a dev set not used for tuning"
    add("--devset-seed", type=int, default=devset.SEED, help=seed)
    linked = 'generate sentences in which "it" refers to a thing in the previous sentence'
    add("--linked", action="store_true", help=linked)
    least = "minimum number of sentences, in talks of about 72 s (%(default)s)"
    add("--sentences", type=int, default=devset.SENTENCES, help=least)
    return parser


if __name__ == "__main__":
    main()
