"""``python -m lab.micro_world``: rebuild the embedded models and the dev set.

An interrupted part resumes where it was stopped; a finished part is only written again. The result
is reproducible on one machine with one number of threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from lab.micro_world import devset, tokenizers, train_aligner, train_speech, train_translation

PARTS = ("tokenizers", "devset", "translation", "recognizer", "aligner")
EXAMPLES = """examples:
  python -m lab.micro_world                        all parts, one after the other
  python -m lab.micro_world recognizer aligner     two of them; they may be interrupted
  python -m lab.micro_world --scale 0.01 --output outputs/trial --work outputs/trial-work
  python -m lab.micro_world devset --devset-seed 5000 --sentences 350 --output outputs/tuning
"""


def main() -> None:
    """Make the given parts."""
    parser = build_parser()
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"unknown part {', '.join(unknown)}; known are {', '.join(PARTS)}")
    torch.set_num_threads(options.threads)
    output, work = options.output, options.work

    def steps(number: int) -> int:
        return max(2, round(number * float(options.scale)))

    def pool(number: int) -> int:
        return max(120, steps(number))

    makers: dict[str, Callable[[], None]] = {
        "tokenizers": lambda: tokenizers.write(output),
        "devset": lambda: devset.write(output / "devset", options.devset_seed, options.sentences),
        "translation": lambda: train_translation.train(
            output / "gemma4", tokenizers.load(output / "gemma4"), work, steps=steps(8000)
        ),
        "recognizer": lambda: train_speech.train(
            output / "qwen3-asr",
            tokenizers.load(output / "qwen3-asr"),
            work,
            steps=steps(6000),
            pool=pool(9000),
        ),
        "aligner": lambda: train_aligner.train(
            output / "qwen3-aligner",
            tokenizers.load(output / "qwen3-aligner"),
            work,
            scale=options.scale,
            pool=pool(3000),
        ),
    }
    for name in PARTS:
        if name in (options.parts or PARTS):
            makers[name]()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.micro_world",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(PARTS)}; default: all. The trainings need the tokenizers in --output",
    )
    parser.add_argument("--output", type=Path, default=Path("micro_models"))
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("outputs/micro_world"),
        help="checkpoints of interrupted trainings (%(default)s)",
    )
    parser.add_argument("--threads", type=int, default=2, help="CPU threads for training")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="fraction of the training steps (a trial: 0.01)"
    )
    parser.add_argument(
        "--devset-seed",
        type=int,
        default=devset.SEED,
        help="another seed has other held-out sentences: a dev set that nothing was tuned on",
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=devset.SENTENCES,
        help="minimum in the dev set, in talks of about 72 s (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    main()
