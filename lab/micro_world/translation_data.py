"""Training examples for the micro translation model.

The model learns two behaviors, selected by the instruction after the source. ``finishes``, the
default wording, completes sentences: for a cut source the target is still the whole translation, as
of an off-line model. ``follows``: the target ends where the source no longer decides it. In both, a
target word that the source does not show yet attends to the last source token, by which AlignAtt
recognizes that the evidence has run out.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import Any, NamedTuple

from alignatt_agent.config.languages import language
from alignatt_agent.config.sections import PromptConfig
from alignatt_agent.translation.prompt import PromptBuilder
from lab.micro_world.corpus import TARGETS, Pair, Side, sentences
from lab.micro_world.lexicon import drawn_names
from lab.micro_world.training import Maker

ANTICIPATED_WEIGHT = 0.3
"""Loss weight of target words that the cut source cannot determine."""
FOLLOWS = "\n\nTranslate into {target_language} what has been said so far."
"""``prompt.after`` of the source-following behavior."""
PROMPTS = {"finishes": PromptConfig(), "follows": PromptConfig(after=FOLLOWS)}


class Example(NamedTuple):
    """One training sequence."""

    ids: list[int]  # prompt, target and end-of-turn token
    first: int  # position of the first target token
    weights: list[float]  # loss weight of every target token, end-of-turn included
    guides: list[list[int]]  # for every target token the source positions that it is aligned to


class Shown(NamedTuple):
    """A transcript of the beginning of a source; its first ``right`` words are correct."""

    words: list[str]
    right: int


class ExampleMaker(Maker[Example]):
    """Draws examples in all directions and both behaviors."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        super().__init__(seed)
        self._tokenizer = tokenizer
        self._end = tokenizer.convert_tokens_to_ids("<turn|>")
        self._builders = {
            (code, behavior): self._builder(code, behavior)
            for code in TARGETS
            for behavior in PROMPTS
        }

    def _builder(self, code: str, behavior: str, names: str = "") -> PromptBuilder:
        sides = language("en"), language(code)
        return PromptBuilder.of(self._tokenizer, PROMPTS[behavior], *sides, names)

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[Example]:
        pairs = list(islice(sentences(seed), count))
        return [self._draw(rng, pair, pairs) for pair in pairs]

    def _length(self, example: Example) -> int:
        return len(example.ids)

    def _draw(self, rng: random.Random, pair: Pair, others: list[Pair]) -> Example:
        code, behavior = rng.choice(TARGETS), rng.choice(sorted(PROMPTS))
        words, side = list(pair.words), pair.targets[code]
        if rng.random() < 0.3:
            words, side = join(words, side, rng.choice(others), code)
        shown = _shown(rng, words, others)
        first_scored = 0
        if rng.random() < 0.15:
            side, first_scored = _corrupt(rng, side, code, others)
        if behavior == "follows":
            known = side.known(shown.right)
            # Sometimes more was emitted than is known: nothing follows until it is.
            ahead = rng.randint(1, 3) if known < len(side.pieces) and rng.random() < 0.15 else 0
            first_scored = max(first_scored, known + ahead) if ahead else first_scored
            side = Side(side.pieces[: known + ahead], side.align[: known + ahead])
            first_scored = min(first_scored, len(side.pieces))
        builder = self._builders[code, behavior]
        if rng.random() < 0.15:
            builder = self._builder(code, behavior, "\n".join(drawn_names(rng, words)))
        return self._encode(builder, shown, side, first_scored, behavior)

    def _encode(
        self, builder: PromptBuilder, shown: Shown, side: Side, first_scored: int, behavior: str
    ) -> Example:
        prompt = builder.build(shown.words)
        positions: list[list[int]] = [[] for _ in shown.words]
        for i, word in enumerate(prompt.token_word):
            positions[word].append(prompt.source_start + i)
        last = [prompt.source_end - 1]
        encoding = self._tokenizer(side.text, add_special_tokens=False, return_offsets_mapping=True)
        piece_of_char = [i for i, piece in enumerate(side.pieces) for _ in piece]
        anticipated = ANTICIPATED_WEIGHT if behavior == "finishes" else 1.0
        weights: list[float] = []
        guides: list[list[int]] = []
        blind = False
        for begin, end in encoding["offset_mapping"]:
            piece = piece_of_char[max(begin, end - 1)]
            waits = max(side.align[piece]) >= shown.right
            blind = blind or waits
            aligned = side.align[piece][0]
            scored = piece >= first_scored
            weights.append((anticipated if blind else 1.0) * scored)
            guides.append((last if waits else positions[aligned]) if scored else [])
        ids = list(prompt.token_ids) + encoding["input_ids"] + [self._end]
        weights.append(anticipated if blind else 1.0)
        guides.append(last)
        return Example(ids, len(prompt.token_ids), weights, guides)


def _shown(rng: random.Random, words: list[str], others: list[Pair]) -> Shown:
    """Cut the source, with the errors of recognizers at its end."""
    right = rng.randint(1, len(words)) if rng.random() < 0.5 else len(words)
    source = words[:right]
    if right == len(words):
        return Shown(source, right)
    source[-1] = source[-1].rstrip(",")
    if right > 1 and rng.random() < 0.15:
        source[-1] = rng.choice(rng.choice(others).words).rstrip(".,")
        right -= 1
    if rng.random() < 0.3:
        source[-1] = source[-1].rstrip(".") + "."
    return Shown(source, right)


def _corrupt(rng: random.Random, side: Side, code: str, others: list[Pair]) -> tuple[Side, int]:
    """Replace, drop or bring forward a target word; return the first piece still scored."""
    pieces, align = list(side.pieces), list(side.align)
    at = rng.randrange(max(1, len(pieces) - 2))
    kind = rng.random()
    if kind < 0.4 and at:
        pieces[at] = rng.choice(rng.choice(others).targets[code].pieces[1:])
    elif kind < 0.7 and at and len(pieces) > 3:
        del pieces[at], align[at]
        return Side(tuple(pieces), tuple(align)), at
    elif at:
        late = rng.randrange(at, len(pieces) - 1)
        pieces.insert(at, pieces.pop(late))
        align.insert(at, align.pop(late))
    return Side(tuple(pieces), tuple(align)), at + 1


def join(words: list[str], side: Side, other: Pair, code: str) -> tuple[list[str], Side]:
    """Append a second sentence."""
    space = "" if code == "zh" else " "
    more = other.targets[code]
    pieces = (*side.pieces, space + more.pieces[0], *more.pieces[1:])
    shift = len(words)
    align = side.align + tuple(tuple(i + shift for i in ids) for ids in more.align)
    return words + list(other.words), Side(pieces, align)
