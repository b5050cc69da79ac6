"""``python -m lab.micro_world.wordings``: BLEU between two draws of correct translations.

No model is loaded. A perfect translator that draws its wordings as the references do reaches this
BLEU; one that always takes the usual wording reaches more.
"""

from __future__ import annotations

import argparse
import random
from itertools import islice

import sacrebleu

from alignatt_agent.evaluation.score import bleu_tokenizer
from lab.micro_world.corpus import TARGETS, sentences

SEED = 4242


def bleu(hypotheses: list[str], references: list[str], code: str) -> float:
    """Return corpus BLEU in a target language."""
    scored = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=bleu_tokenizer(code))
    return float(scored.score)


def two_draws(code: str, count: int, seed: int = SEED) -> float:
    """Return BLEU between two independent draws of references of held-out sentences."""
    rng = random.Random(seed)
    pairs = list(islice(sentences(seed, held_out=True), count))
    again = [pair.reworded(code, rng).text for pair in pairs]
    return bleu(again, [pair.targets[code].text for pair in pairs], code)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.micro_world.wordings", description=__doc__)
    parser.add_argument("--sentences", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=SEED)
    return parser


def main() -> None:
    """Print the BLEU of each target."""
    options = build_parser().parse_args()
    for code in TARGETS:
        print(f"{code}: {two_draws(code, options.sentences, options.seed):.1f}")


if __name__ == "__main__":
    main()
