"""``python -m micro_world``: rebuild the embedded models and the dev set."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import Qwen3ASRForConditionalGeneration

from micro_world import devset, train_aligner, train_speech, train_translation


def main() -> None:
    """Train the three micro models from nothing, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m micro_world", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("micro_models"))
    parser.add_argument("--threads", type=int, default=2, help="CPU threads for training")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="fraction of the training steps (a trial: 0.01)"
    )
    parser.add_argument(
        "--devset-seed",
        type=int,
        default=1000,
        help="another one (5000) speaks other held-out sentences: a dev set nothing was tuned on",
    )
    parser.add_argument(
        "only",
        nargs="*",
        metavar="PART",
        help="devset, translation, recogniser (with the aligner); default: all",
    )
    arguments = parser.parse_args()
    known = {"devset", "translation", "recogniser"}
    parts = set(arguments.only) or known
    if parts - known:
        parser.error(f"unknown part {sorted(parts - known)}, known are {sorted(known)}")
    torch.set_num_threads(arguments.threads)
    out: Path = arguments.output

    def steps(number: int) -> int:
        return max(2, round(number * float(arguments.scale)))

    if "devset" in parts:
        devset.write(out / "devset", seed=arguments.devset_seed)
    if "translation" in parts:
        train_translation.train(out / "gemma4", steps=steps(2400))
    if "recogniser" in parts:
        recogniser, tokenizer = train_speech.train(
            out / "qwen3-asr", steps=steps(4000), pool=max(120, round(9000 * arguments.scale))
        )
        assert isinstance(recogniser, Qwen3ASRForConditionalGeneration)
        train_aligner.train(
            out / "qwen3-aligner",
            recogniser,
            tokenizer,
            scale=arguments.scale,
            pool=max(120, round(3000 * arguments.scale)),
        )


if __name__ == "__main__":
    main()
