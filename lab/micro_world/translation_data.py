"""Make training examples for the micro translation model.

The model learns two behaviors, selected by the instruction after the source. ``finishes``, the
default wording, completes sentences: for a cut source, the target is still the whole translation,
as with an off-line model. ``follows`` ends the target where the source no longer determines it. In
both, a target word whose source word is missing attends to the last source token. AlignAtt then
recognizes that this word depends on later speech.

A third of the examples have a history, which determines the meaning of "it". All sentences of these
examples are scored. Some examples have a list of names, whose other spelling may occur in the
source, or lines of fixed translations.
"""

import random
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.translation.prompt import PromptBuilder
from lab.micro_world.corpus import TARGETS, Pair, Side, sentences
from lab.micro_world.lexicon import SPELLINGS, drawn_names
from lab.micro_world.training import Maker

HISTORY = (0.64, 0.08, 0.08, 0.06, 0.05, 0.05, 0.04)
"""Shares of examples with a history of 0 to 6 sentences, which a window of two may hold."""
LISTED = (0.15, 0.7)
"""Share of examples with a list of names, and of those that have a name with two spellings."""
NAMED = 0.25
"""Share of examples whose sentence is drawn among those that have such a name."""
SPELLED = {a.en: b.en for pair in SPELLINGS for a, b in (pair, pair[::-1])}
"""The other spelling of names that have two spellings."""
ANTICIPATED_WEIGHT = 0.3
"""Loss weight of target words that the cut source cannot determine."""
CONTEXT_WEIGHT = 12.0
"""Loss weight of words that a history or a list decides: pronouns and names."""
FOLLOWS = "\n\nTranslate into {target_language} what has been said so far."
"""``prompt.after`` of the source-following behavior."""
PROMPTS = {"finishes": PromptConfig(), "follows": PromptConfig(after=FOLLOWS)}


class Example(NamedTuple):
    """One training sequence: sentences of a history with their translations, and the open one."""

    ids: list[int]  # prompt, target and end-of-turn token
    first: int  # position of the first target token of the open sentence
    places: list[int]  # position of every target token, including end-of-turn tokens
    weights: list[float]  # their loss weights
    guides: list[list[int]]  # the source positions that they are aligned to
    names: list[list[int]]  # of a name: where else the prompt has it in the same spelling


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
        self._names = {name: tokenizer.convert_tokens_to_ids(f"▁{name}") for name in SPELLED}
        self._builders = {
            (code, behavior): self._builder(code, behavior)
            for code in TARGETS
            for behavior in PROMPTS
        }

    def _builder(self, code: str, behavior: str, names: str = "") -> PromptBuilder:
        sides = language("en"), language(code)
        return PromptBuilder.of(self._tokenizer, PROMPTS[behavior], *sides, names)

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[Example]:
        pairs = list(islice(sentences(seed, linked=True), count))
        named = [number for number, pair in enumerate(pairs) if _spelled(pair.words)]
        numbers = (
            rng.choice(named) if named and rng.random() < NAMED else number
            for number in range(count)
        )
        return [self._draw(rng, number, pairs) for number in numbers]

    def _length(self, example: Example) -> int:
        return len(example.ids)

    def _draw(self, rng: random.Random, number: int, others: list[Pair]) -> Example:
        code, behavior = rng.choice(TARGETS), rng.choice(sorted(PROMPTS))
        words, side = list(others[number].words), others[number].targets[code]
        if rng.random() < 0.3:
            words, side = join(words, side, others[(number + 1) % len(others)], code)
        kept = rng.choices(range(len(HISTORY)), HISTORY)[0]
        before = others[max(0, number - kept) : number]
        shown = _shown(rng, words, others)
        first_scored = 0
        if rng.random() < 0.15:
            side, first_scored = _corrupt(rng, side, code, others)
        if behavior == "follows":
            known = side.known(shown.right)
            # Sometimes the emitted text is ahead of the source: nothing follows it yet.
            ahead = rng.randint(1, 3) if known < len(side.pieces) and rng.random() < 0.15 else 0
            first_scored = max(first_scored, known + ahead) if ahead else first_scored
            side = Side(side.pieces[: known + ahead], side.align[: known + ahead])
            first_scored = min(first_scored, len(side.pieces))
        builder = self._builders[code, behavior]
        if rng.random() < LISTED[bool(_spelled(words))]:
            lines, shown, side = listed(rng, words, shown, side)
            builder = self._builder(code, behavior, "\n".join(lines))
        turns: list[Example] = []
        for pair in before:
            whole = Shown(list(pair.words), len(pair.words))
            turns.append(self._encode(builder, whole, pair.targets[code], 0, behavior, turns))
        turns.append(self._encode(builder, shown, side, first_scored, behavior, turns))
        places, weights, guides, names = (
            [item for turn in turns for item in getattr(turn, part)]
            for part in ("places", "weights", "guides", "names")
        )
        return Example(turns[-1].ids, turns[-1].first, places, weights, guides, names)

    def _encode(
        self,
        builder: PromptBuilder,
        shown: Shown,
        side: Side,
        first_scored: int,
        behavior: str,
        before: list[Example],
    ) -> Example:
        history = before[-1].ids[:-1] if before else ()  # the next turn ends the one before
        prompt = builder.build(shown.words, history=history)
        positions: list[list[int]] = [[] for _ in shown.words]
        for i, word in enumerate(prompt.token_word):
            positions[word].append(prompt.source_start + i)
        last = [prompt.source_end - 1]
        encoding = self._tokenizer(side.text, add_special_tokens=False, return_offsets_mapping=True)
        piece_of_char = [i for i, piece in enumerate(side.pieces) for _ in piece]
        anticipated = ANTICIPATED_WEIGHT if behavior == "finishes" else 1.0
        weights: list[float] = []
        guides: list[list[int]] = []
        names: list[list[int]] = []
        source = range(prompt.source_start, prompt.source_end)
        blind = False
        for begin, end in encoding["offset_mapping"]:
            piece = piece_of_char[max(begin, end - 1)]
            waits = max(side.align[piece]) >= shown.right
            blind = blind or waits
            aligned = side.align[piece][0]
            weight = anticipated if blind else 1.0
            names.append([])
            if not waits:
                heard, said = shown.words[aligned].strip(".,"), side.pieces[piece].strip(" .,")
                # Some names are right as heard: the model must not change every name.
                if (before and heard in ("It", "it")) or said in SPELLED:
                    weight = CONTEXT_WEIGHT
                if said in SPELLED:
                    wanted = self._names[said]
                    found = (i for i, token in enumerate(prompt.token_ids) if token == wanted)
                    names[-1] = [i for i in found if i not in source]
            scored = piece >= first_scored
            weights.append(weight * scored)
            guides.append((last if waits else positions[aligned]) if scored else [])
        weights.append(anticipated if blind else 1.0)
        guides.append(last)
        names.append([])
        ids = [*prompt.token_ids, *encoding["input_ids"], self._end]
        first = len(prompt.token_ids)
        return Example(ids, first, list(range(first, len(ids))), weights, guides, names)


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


def listed(
    rng: random.Random, words: list[str], shown: Shown, side: Side
) -> tuple[list[str], Shown, Side]:
    """Draw the lines of a talk's list; half of the names with two spellings get the other one.

    A plain list is right where the transcript is wrong. A line with a translation decides the
    translation.
    """
    names = drawn_names(rng, words)
    other = {name: SPELLED[name] for name in names if name in SPELLED and rng.random() < 0.5}
    if rng.random() < 0.5:
        return names, Shown([respelled(word, other) for word in shown.words], shown.right), side
    side = Side(tuple(respelled(piece, other) for piece in side.pieces), side.align)
    return [f"{name} = {other.get(name, name)}" for name in names], shown, side


def _spelled(words: Sequence[str]) -> set[str]:
    """Return the names with two spellings among words."""
    return {word.strip(".,") for word in words} & SPELLED.keys()


def respelled(text: str, other: dict[str, str]) -> str:
    """Return a word with its mark, or a piece with its space, in the other spelling."""
    name = text.strip(" .,")
    return text.replace(name, other.get(name, name)) if name else text


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
