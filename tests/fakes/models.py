"""Translation engines and tokenizers that tests can compute by hand."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from alignatt_agent.calibration.head_scores import both_rows, cumulative_hits
from alignatt_agent.types import AttentionRows, Draft, EngineError, Prompt, Word
from alignatt_agent.types.engines import Readout

READOUT = Readout(heads=((0, 0), (1, 1)), row="predicting")


def before_calls(engine, method, action):
    """Call ``action()`` before every call of a method of an engine; returns the engine."""
    inner = getattr(engine, method)

    def called(*given, **named):
        action()
        return inner(*given, **named)

    setattr(engine, method, called)
    return engine


def fail_calls(engine, method, numbers):
    """Let calls of a method of an engine fail, numbered from 1; returns the engine."""
    count = itertools.count(1)

    def perhaps_fail():
        if next(count) in numbers:
            raise EngineError("the fake engine failed")

    return before_calls(engine, method, perhaps_fail)


def make_rows(source: Sequence[Sequence[Sequence[float]]] | np.ndarray) -> AttentionRows:
    """Build rows from ``[draft, heads, source]``; the mass that is missing to 1 is the prompt's."""
    array = np.asarray(source, dtype=np.float32)
    rest = (1 - array.sum(axis=2)).clip(0, 1)
    return AttentionRows(array, rest, np.zeros_like(rest))


def make_words(text: str) -> tuple[Word, ...]:
    """Words of 0.4 s, one every half second."""
    return tuple(Word(word, i / 2, i / 2 + 0.4) for i, word in enumerate(text.split()))


@dataclass
class PieceTokenizer:
    """Decodes by joining the pieces of an open vocabulary."""

    pieces: list[str] = field(default_factory=list)

    def ids(self, *pieces: str) -> tuple[int, ...]:
        for piece in pieces:
            if piece not in self.pieces:
                self.pieces.append(piece)
        return tuple(self.pieces.index(piece) for piece in pieces)

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(self.pieces[i] for i in ids)


def with_template(tokenizer, template: str):
    """Return a copy of a tokenizer with another chat template."""
    changed = copy.deepcopy(tokenizer)
    changed.chat_template, changed.name_or_path = template, "some/model"
    return changed


class Prompts:
    """Prompts of 1-3 tokens per word (its length decides); no instruction."""

    expansion = 1.0

    def ids(self, text):
        assert not text  # a line break is a piece of its own
        return ()

    def build(self, words, accepted=(), history=()):
        assert words
        assert all(len(word.split()) == 1 for word in words)
        token_word = tuple(i for i, word in enumerate(words) for _ in range(len(word) % 3 + 1))
        source = [sum(map(ord, words[i])) for i in token_word]
        return Prompt((*history, 7, 7, *source, *accepted), len(history) + 2, token_word)

    def closed(self, words, translation, first):
        return self.build(words, translation).token_ids


@dataclass
class ScriptedEngine:
    """Returns prepared drafts in order, and records the requests."""

    drafts: list[Draft | Exception]
    calls: list[tuple[Prompt, int, Readout | None]] = field(default_factory=list)
    expected: list[tuple[int, ...]] = field(default_factory=list)
    excluded: list[tuple[int, ...]] = field(default_factory=list)

    def draft(self, request):
        self.calls.append((request.prompt, request.max_tokens, request.readout))
        self.expected.append(request.expected)
        self.excluded.append(request.excluded)
        draft = self.drafts.pop(0)
        if isinstance(draft, Exception):
            raise draft
        return draft


def averaged_score(reader, pairs, row, heads) -> float:
    """Translation Score of the mean row of ``heads``, as the policy reads it."""
    found = [(both_rows(reader, pair, heads)[row], pair) for pair in pairs]
    hit = sum(cumulative_hits(rows, pair, range(len(heads)))[-1] for rows, pair in found)
    return hit / sum(pair.aligned for pair in pairs)
