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
from lab.micro_world.corpus import TARGETS, Pair, sentences
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
    first_draws, second_draws = [], []
    for pair in islice(sentences(SEED, held_out=True), count):
        first_draws.append(pair.targets[code].text)
        second_draws.append(pair.reworded(code, rng).text)
    return bleu(second_draws, first_draws, code)


def translation(engines: Engines, code: str, count: int) -> dict[str, float]:
    """Return BLEU of greedy translations of held-out sentences.

    Whole sources are translated with both instructions, and cut sources with the source-following
    instruction, against the part of the reference that they determine.
    """
    pairs = list(islice(sentences(SEED, held_out=True), count))
    sources = [pair.words for pair in pairs]
    references = [pair.targets[code].text for pair in pairs]
    figures = {f"two_draws_bleu_{code}": two_draws(code, count)}
    for behavior in PROMPTS:
        texts = _translated(engines, code, behavior, sources, f"{code}, {behavior}")
        figures[f"{behavior}_bleu_{code}"] = bleu(texts, references, code)
    cut_sources, cut_references = _cut(pairs, code)
    texts = _translated(engines, code, "follows", cut_sources, f"{code}, cut")
    figures[f"follows_cut_bleu_{code}"] = bleu(texts, cut_references, code)
    if code in PRONOUNS:
        figures |= context(engines, code, count)
    return figures


def _cut(pairs: Sequence[Pair], code: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """Cut sources at random; return them and the parts of the references that they determine."""
    rng = random.Random(SEED)
    sources, references = [], []
    for pair in pairs:
        # At least one word is shown, and at least one is missing.
        shown = rng.randint(1, len(pair.words) - 1)
        sources.append(pair.words[:shown])
        side = pair.targets[code]
        references.append("".join(side.pieces[: side.known_pieces(shown)]))
    return sources, references


def _translated(
    engines: Engines, code: str, behavior: str, sources: Sequence[tuple[str, ...]], title: str
) -> list[str]:
    """Translate each source alone, without a history."""
    english, target = language("en"), language(code)
    builder = PromptBuilder.of(engines.tokenizer, PROMPTS[behavior], english, target)
    talks = [[words] for words in sources]
    texts = translated(engines, builder, talks, title=title)
    return [text for (text,) in texts]


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
