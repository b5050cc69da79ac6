"""Measure each embedded model on held-out data."""

import random
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import sacrebleu

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path
from alignatt_agent.evaluation.score import bleu_tokenizer
from alignatt_agent.translation.prompt import PromptBuilder
from lab import commands
from lab.micro_world import measure_speech
from lab.micro_world.corpus import TARGETS, sentences
from lab.micro_world.measure_context import PRONOUNS, SEED, context, translated
from lab.micro_world.translation_data import PROMPTS


def bleu(hypotheses: list[str], references: list[str], code: str) -> float:
    """Return corpus BLEU in a target language."""
    scored = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=bleu_tokenizer(code))
    return float(scored.score)


def two_draws(code: str, count: int) -> float:
    """Return BLEU between two independent draws of references of held-out sentences.

    A perfect translator that draws wordings like the references reaches this score. One that always
    uses the usual wording reaches more.
    """
    rng = random.Random(SEED)
    pairs = list(islice(sentences(SEED, held_out=True), count))
    again = [pair.reworded(code, rng).text for pair in pairs]
    return bleu(again, [pair.targets[code].text for pair in pairs], code)


def translation(engines: Engines, code: str, count: int) -> dict[str, float]:
    """Return BLEU of greedy translations of held-out sentences.

    Whole sources are translated with both instructions, and cut sources with the source-following
    instruction, against the part of the reference that they determine.
    """
    english, target = language("en"), language(code)
    pairs = list(islice(sentences(SEED, held_out=True), count))
    sides = [pair.targets[code] for pair in pairs]
    whole = [side.text for side in sides]
    figures = {f"two_draws_bleu_{code}": two_draws(code, count)}
    for behavior, prompt in PROMPTS.items():
        builder = PromptBuilder.of(engines.tokenizer, prompt, english, target)
        texts = _translated(engines, builder, [p.words for p in pairs], f"{code}, {behavior}")
        figures[f"{behavior}_bleu_{code}"] = bleu(texts, whole, code)
    rng = random.Random(SEED)
    shown = [rng.randint(1, len(pair.words) - 1) for pair in pairs]
    cut = [pair.words[:count] for pair, count in zip(pairs, shown, strict=True)]
    texts = _translated(engines, builder, cut, f"{code}, cut")
    known = [
        "".join(side.pieces[: side.known_pieces(count)])
        for side, count in zip(sides, shown, strict=True)
    ]
    figures[f"follows_cut_bleu_{code}"] = bleu(texts, known, code)
    if code in PRONOUNS:
        figures |= context(engines, code, count)
    return figures


def _translated(
    engines: Engines, builder: PromptBuilder, sources: Sequence[tuple[str, ...]], title: str
) -> list[str]:
    found = translated(engines, builder, [[words] for words in sources], title=title)
    return [text for (text,) in found]


def measure(engines: Engines, devset: Path, count: int) -> dict[str, float]:
    """Measure all three models; ``count`` is the number of sentences for translation."""
    figures = measure_speech.measure(engines, devset)
    for code in TARGETS:
        figures |= translation(engines, code, count)
    return figures


def build_parser() -> ArgumentParser:
    """Return the parser, which tests also use."""
    parser = commands.parser("lab.micro_world.measure", __doc__)
    parser.add_argument("--devset", type=Path, default=None)
    parser.add_argument("--sentences", type=int, default=150)
    return parser


def main() -> None:
    """Measure and print."""
    options = build_parser().parse_args()
    devset = options.devset or find_path("micro_models/devset")
    with closing(Runtime()) as runtime:
        engines = runtime.load_engines(load_config("micro-low").models, ())
        figures = measure(engines, devset, options.sentences)
    for key, value in figures.items():
        print(f"{key}: {value:.4g}")


if __name__ == "__main__":
    main()
