"""``python -m micro_world.measure``: the micro models one by one, on held-out data."""

from __future__ import annotations

import argparse
import random
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from alignatt_agent.cascade import Engines, load_engines, shutdown
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path
from alignatt_agent.translation.prompt import PromptBuilder
from micro_world import measure_speech
from micro_world.corpus import TARGETS, sentences
from micro_world.translation_data import PROMPTS
from micro_world.wordings import SEED, bleu, two_draws

MAX_TARGET_TOKENS = 100


def translation(engines: Engines, code: str, count: int) -> dict[str, float]:
    """Return BLEU of greedy translations of fresh held-out sentences.

    Whole sources under both instructions; and sources that were cut off, under that to follow,
    against what they decide of the reference.
    """
    english, target = language("en"), language(code)
    pairs = list(islice(sentences(SEED, held_out=True), count))
    whole = [pair.targets[code].text for pair in pairs]
    figures = {f"two_draws_bleu_{code}": two_draws(code, count)}
    for behaviour, prompt in PROMPTS.items():
        builder = PromptBuilder.of(engines.tokenizer, prompt, english, target)
        texts = [
            _translated(engines, builder, pair.words)
            for pair in tqdm(pairs, desc=f"{code}, {behaviour}")
        ]
        figures[f"{behaviour}_bleu_{code}"] = bleu(texts, whole, code)
    rng = random.Random(SEED)
    texts, known = [], []
    for pair in tqdm(pairs, desc=f"{code}, cut"):
        shown = rng.randint(1, len(pair.words) - 1)
        side = pair.targets[code]
        texts.append(_translated(engines, builder, pair.words[:shown]))
        known.append("".join(side.pieces[: side.known(shown)]))
    figures[f"follows_cut_bleu_{code}"] = bleu(texts, known, code)
    return figures


def _translated(engines: Engines, builder: PromptBuilder, words: tuple[str, ...]) -> str:
    draft = engines.translation.draft(builder.build(words), MAX_TARGET_TOKENS)
    return str(engines.tokenizer.decode(draft.token_ids))


def measure(engines: Engines, devset: Path, count: int) -> dict[str, float]:
    """Measure all three models; translation on ``count`` sentences."""
    figures = measure_speech.measure(engines, devset)
    for code in TARGETS:
        figures |= translation(engines, code, count)
    return figures


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m micro_world.measure", description=__doc__)
    parser.add_argument("--config", default="micro-low")
    parser.add_argument("--devset", type=Path, default=None)
    parser.add_argument("--sentences", type=int, default=150)
    return parser


def main() -> None:
    """Print the figures of speech models and translation."""
    arguments = build_parser().parse_args()
    devset = arguments.devset or find_path("micro_models/devset")
    engines = load_engines(load_config(arguments.config).models, ())
    try:
        figures = measure(engines, devset, arguments.sentences)
    finally:
        shutdown()
    for key, value in figures.items():
        print(f"{key}: {value:.4g}")


if __name__ == "__main__":
    main()
