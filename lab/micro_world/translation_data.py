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
from alignatt_agent.types.drafts import Prompt
from lab.micro_world.corpus import TARGETS, Pair, Side, sentences
from lab.micro_world.lexicon import SPELLINGS, drawn_names
from lab.micro_world.training import Maker

HISTORY = (0.64, 0.08, 0.08, 0.06, 0.05, 0.05, 0.04)
"""Shares of examples with a history of 0 to 6 sentences, which a window of two may hold."""
LISTED = 0.15
"""Share of examples with a list of names."""
LISTED_SPELLED = 0.7
"""The same share, if the sentence has a name with two spellings."""
NAMED = 0.25
"""Share of examples whose sentence is drawn among those that have such a name."""
ANTICIPATED_WEIGHT = 0.3
"""Loss weight of target words that the cut source cannot determine."""
CONTEXT_WEIGHT = 12.0
"""Loss weight of words that a history or a list decides: pronouns and names."""
FOLLOWS = "\n\nTranslate into {target_language} what has been said so far."
"""``prompt.after`` of the source-following behavior."""
PROMPTS = {"finishes": PromptConfig(), "follows": PromptConfig(after=FOLLOWS)}


def _other_spellings() -> dict[str, str]:
    other_spellings = {}
    for common, rare in SPELLINGS:
        other_spellings[common.en] = rare.en
        other_spellings[rare.en] = common.en
    return other_spellings


SPELLED = _other_spellings()
"""The other spelling of names that have two spellings."""


class Example(NamedTuple):
    """One training sequence: sentences of a history with their translations, and the open one."""

    ids: list[int]  # prompt, target and end-of-turn token
    first: int  # position of the first target token of the open sentence
    places: list[int]  # position of every target token, including end-of-turn tokens
    weights: list[float]  # their loss weights
    guides: list[list[int]]  # source positions of the word that each is aligned to
    names: list[list[int]]  # for a name, where else the prompt has it in the same spelling


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
        self._builders = {}
        for code in TARGETS:
            for behavior in PROMPTS:
                self._builders[code, behavior] = self._builder(code, behavior)

    def _builder(self, code: str, behavior: str, names: str = "") -> PromptBuilder:
        english, target = language("en"), language(code)
        return PromptBuilder.of(self._tokenizer, PROMPTS[behavior], english, target, names)

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[Example]:
        pairs = list(islice(sentences(seed, linked=True), count))
        named = [number for number, pair in enumerate(pairs) if _spelled(pair.words)]
        examples = []
        for position in range(count):
            number = position
            if named and rng.random() < NAMED:
                number = rng.choice(named)
            examples.append(self._draw(rng, number, pairs))
        return examples

    def _length(self, example: Example) -> int:
        return len(example.ids)

    def _draw(self, rng: random.Random, number: int, pairs: list[Pair]) -> Example:
        """Draw an example of sentence ``number``, whose history are the pairs before it."""
        code = rng.choice(TARGETS)
        behavior = rng.choice(sorted(PROMPTS))
        words = list(pairs[number].words)
        side = pairs[number].targets[code]
        if rng.random() < 0.3:
            following = pairs[(number + 1) % len(pairs)]
            words, side = join(words, side, following, code)
        history_length = rng.choices(range(len(HISTORY)), HISTORY)[0]
        history = pairs[max(0, number - history_length) : number]
        shown = _shown(rng, words, pairs)
        first_scored = 0
        if rng.random() < 0.15:
            side, first_scored = _corrupt(rng, side, code, pairs)
        if behavior == "follows":
            side, first_scored = _follow(rng, side, shown, first_scored)
        builder = self._builders[code, behavior]
        list_share = LISTED
        if _spelled(words):
            list_share = LISTED_SPELLED
        if rng.random() < list_share:
            lines, shown, side = listed(rng, words, shown, side)
            builder = self._builder(code, behavior, "\n".join(lines))
        turns: list[Example] = []
        for pair in history:
            whole = Shown(list(pair.words), len(pair.words))
            turns.append(self._encode(builder, whole, pair.targets[code], 0, behavior, turns))
        turns.append(self._encode(builder, shown, side, first_scored, behavior, turns))
        return _merge(turns)

    def _encode(
        self,
        builder: PromptBuilder,
        shown: Shown,
        side: Side,
        first_scored: int,
        behavior: str,
        history: list[Example],
    ) -> Example:
        """Label the tokens of one sentence; pieces before ``first_scored`` are not scored."""
        history_ids: list[int] = []
        if history:
            # The next turn writes the end of the previous one.
            history_ids = history[-1].ids[:-1]
        prompt = builder.build(shown.words, history=history_ids)
        positions = _word_positions(prompt, len(shown.words))
        last = [prompt.source_end - 1]
        piece_of_char = _piece_of_char(side)
        anticipated_weight = 1.0
        if behavior == "finishes":
            anticipated_weight = ANTICIPATED_WEIGHT
        weights: list[float] = []
        guides: list[list[int]] = []
        names: list[list[int]] = []
        anticipated = False
        encoding = self._tokenizer(side.text, add_special_tokens=False, return_offsets_mapping=True)
        for _, end in encoding["offset_mapping"]:
            # One in 1,000 Chinese tokens spans two words; it counts for the second.
            piece = piece_of_char[end - 1]
            waits = max(side.align[piece]) >= shown.right
            # Words after an anticipated word are anticipated as well.
            anticipated = anticipated or waits
            weight = anticipated_weight if anticipated else 1.0
            guide = last
            name_positions: list[int] = []
            if not waits:
                aligned = side.align[piece][0]
                guide = positions[aligned]
                source_word = shown.words[aligned].strip(".,")
                target_word = side.pieces[piece].strip(" .,")
                # Names that are right as heard also count, or the model would change every name.
                if target_word in SPELLED:
                    weight = CONTEXT_WEIGHT
                    name_positions = self._listed_positions(prompt, target_word)
                elif history and source_word in ("It", "it"):
                    weight = CONTEXT_WEIGHT
            if piece < first_scored:
                weight = 0.0
                guide = []
            weights.append(weight)
            guides.append(guide)
            names.append(name_positions)
        # The end-of-turn token depends on the end of the source.
        weights.append(anticipated_weight if anticipated else 1.0)
        guides.append(last)
        names.append([])
        ids = [*prompt.token_ids, *encoding["input_ids"], self._end]
        first = len(prompt.token_ids)
        places = list(range(first, len(ids)))
        return Example(ids, first, places, weights, guides, names)

    def _listed_positions(self, prompt: Prompt, name: str) -> list[int]:
        """Return where a prompt has a name outside of the source, for example in a list."""
        name_id = self._names[name]
        positions = []
        for position, token in enumerate(prompt.token_ids):
            in_source = prompt.source_start <= position < prompt.source_end
            if token == name_id and not in_source:
                positions.append(position)
        return positions


def _word_positions(prompt: Prompt, count: int) -> list[list[int]]:
    """Return the positions in the prompt of each of ``count`` source words."""
    positions: list[list[int]] = [[] for _ in range(count)]
    for position, word in enumerate(prompt.token_word, prompt.source_start):
        positions[word].append(position)
    return positions


def _piece_of_char(side: Side) -> list[int]:
    """Return the number of the piece of each character."""
    numbers: list[int] = []
    for number, piece in enumerate(side.pieces):
        numbers += [number] * len(piece)
    return numbers


def _merge(turns: list[Example]) -> Example:
    """Return one example that scores the targets of all turns; the last turn has all ids."""
    ids, first = turns[-1].ids, turns[-1].first
    merged = Example(ids, first, places=[], weights=[], guides=[], names=[])
    for turn in turns:
        merged.places.extend(turn.places)
        merged.weights.extend(turn.weights)
        merged.guides.extend(turn.guides)
        merged.names.extend(turn.names)
    return merged


def _follow(rng: random.Random, side: Side, shown: Shown, first_scored: int) -> tuple[Side, int]:
    """End the target where the source does; return it and the first piece still scored."""
    length = side.known_pieces(shown.right)
    # Sometimes the emitted text is ahead of the source: nothing follows it yet.
    if length < len(side.pieces) and rng.random() < 0.15:
        length += rng.randint(1, 3)
        first_scored = max(first_scored, length)
    side = Side(side.pieces[:length], side.align[:length])
    return side, min(first_scored, len(side.pieces))


def _shown(rng: random.Random, words: list[str], others: list[Pair]) -> Shown:
    """Cut the source, with the errors of recognizers at its end."""
    right = len(words)
    if rng.random() < 0.5:
        right = rng.randint(1, len(words))
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
    respellings = {}
    for name in names:
        if name in SPELLED and rng.random() < 0.5:
            respellings[name] = SPELLED[name]
    if rng.random() < 0.5:
        transcript = [respelled(word, respellings) for word in shown.words]
        return names, Shown(transcript, shown.right), side
    lines = [f"{name} = {respellings.get(name, name)}" for name in names]
    pieces = tuple(respelled(piece, respellings) for piece in side.pieces)
    return lines, shown, Side(pieces, side.align)


def _spelled(words: Sequence[str]) -> set[str]:
    """Return the names with two spellings among words."""
    return {word.strip(".,") for word in words} & SPELLED.keys()


def respelled(text: str, respellings: dict[str, str]) -> str:
    """Return a word with its mark, or a piece with its space, in the other spelling."""
    name = text.strip(" .,")
    if name not in respellings:
        return text
    return text.replace(name, respellings[name])


def _corrupt(rng: random.Random, side: Side, code: str, others: list[Pair]) -> tuple[Side, int]:
    """Replace, drop or bring forward a target word; return the first piece still scored."""
    pieces, align = list(side.pieces), list(side.align)
    at = rng.randrange(max(1, len(pieces) - 2))
    kind = rng.random()
    # The first piece, which has no leading space, stays.
    if kind < 0.4 and at:
        other_side = rng.choice(others).targets[code]
        pieces[at] = rng.choice(other_side.pieces[1:])
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
    other_side = other.targets[code]
    first, *more = other_side.pieces
    if code != "zh":
        first = " " + first
    align = list(side.align)
    for word_numbers in other_side.align:
        shifted = tuple(number + len(words) for number in word_numbers)
        align.append(shifted)
    pieces = (*side.pieces, first, *more)
    return [*words, *other.words], Side(pieces, tuple(align))
