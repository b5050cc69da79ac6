"""The reconstruction of one draft: what the model saw, where it looked, and what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from alignatt_agent.policy import Policy
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.units import BROKEN, UnitDecoder
from alignatt_agent.types import (
    DraftContext,
    Prompt,
    Readout,
    StopReason,
    TranslationEngine,
)

PROVENANCE = ("accessible source", "inaccessible source", "other prompt", "suffix")


@dataclass(frozen=True, slots=True)
class Token:
    """A drafted token.

    Attributes:
        text: what it adds to the translation.
        accepted: whether it passed the gate.
        emitted: whether it is left after rounding back to whole units.
    """

    text: str
    accepted: bool
    emitted: bool


@dataclass(frozen=True, slots=True)
class DraftedWord:
    """A drafted word (a character, for scripts without spaces) and where it comes from.

    Attributes:
        text: as written.
        first: index of its first token.
        last: index one past its last token.
        attention: ``[source words]``, attention of the mean head, mean over its tokens.
        provenance: shares in the order of ``PROVENANCE``; they sum to 1.
        peak: source word of the gate's peak at its last scanned token; ``None`` when the gate had
            stopped before.
    """

    text: str
    first: int
    last: int
    attention: npt.NDArray[np.float64]
    provenance: npt.NDArray[np.float64]
    peak: int | None


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """Everything the figure of one draft shows.

    Attributes:
        source: source words.
        accessible: number of leading words that the policy may rely on.
        limit: number of leading words whose peaks pass the frontier test, margin included.
        partition: parts of the request in order, each with its number of tokens.
        accepted_text: translation that was there before.
        tokens: the draft.
        words: the draft by words.
        reason: why the gate stopped.
        heads: number of heads that were averaged.
    """

    source: tuple[str, ...]
    accessible: int
    limit: int
    partition: tuple[tuple[str, int], ...]
    accepted_text: str
    tokens: tuple[Token, ...]
    words: tuple[DraftedWord, ...]
    reason: StopReason
    heads: int

    def __str__(self) -> str:
        """What the terminal shows."""
        heard, rest = self.source[: self.accessible], self.source[self.accessible :]
        shown, dropped = (
            "".join(token.text for token in self.tokens if token.emitted is emitted).strip()
            for emitted in (True, False)
        )
        rows = [
            (
                word.text,
                "-" if word.peak is None else self.source[word.peak],
                *(f"{100 * share:.0f} %" for share in word.provenance),
            )
            for word in self.words
        ]
        header = ("word", "peak", *PROVENANCE)
        table = tabulate(rows, header, tablefmt="plain", disable_numparse=True)
        return (
            f"source  {' '.join(heard)} | {' '.join(rest)}\n"
            f"draft   {self.accepted_text} > {shown} | {dropped}   ({self.reason.value})\n{table}"
        )


def explain(
    engine: TranslationEngine,
    tokenizer: Any,
    builder: PromptBuilder,
    readout: Readout,
    policy: Policy,
    source: Sequence[str],
    accessible: int,
    accepted: str = "",
    *,
    spaced: bool = True,
    max_tokens: int = 16,
) -> Reconstruction:
    """Draft once and take the decision apart.

    Args:
        engine: drafts with attention rows.
        tokenizer: fast tokenizer of its model.
        builder: prompts of the direction.
        readout: heads to average.
        policy: the gate.
        source: source words.
        accessible: number of leading words that count as heard.
        accepted: translation that was accepted before.
        spaced: whether the target language separates words by white space.
        max_tokens: longest draft.

    Raises:
        ValueError: there are no source words, or fewer than ``accessible``.
        EngineError: the engine failed.
    """
    if not 0 <= accessible <= len(source):
        raise ValueError(f"{accessible} of {len(source)} source words cannot be accessible")
    prefix = tuple(tokenizer(accepted, add_special_tokens=False)["input_ids"]) if accepted else ()
    prompt = builder.build(source, prefix)
    draft = engine.draft(prompt, max_tokens, readout)
    frontier = sum(word < accessible for word in prompt.token_word)
    units = UnitDecoder(tokenizer, spaced)
    cuts = units.boundaries(draft.token_ids)
    decision = policy.decide(draft, frontier, DraftContext(lambda: tuple(cuts[1:])))
    emitted = units.complete(prefix, draft.token_ids, decision.accepted, closed=draft.ended)
    texts = _texts(units, prefix, draft.token_ids)
    tokens = tuple(Token(text, i < decision.accepted, i < emitted) for i, text in enumerate(texts))
    rows = draft.rows
    assert rows is not None
    words = []
    for first, last in pairwise(cuts):
        row = np.asarray(rows.source[first:last], np.float64).mean(axis=(0, 1))
        other, suffix = (part[first:last].mean() for part in (rows.prompt, rows.suffix))
        seen = decision.peaks[first:last]
        words.append(
            DraftedWord(
                "".join(texts[first:last]).strip(),
                first,
                last,
                np.asarray(np.bincount(prompt.token_word, row), np.float64),
                np.asarray([row[:frontier].sum(), row[frontier:].sum(), other, suffix]),
                prompt.token_word[seen[-1]] if seen else None,
            )
        )
    partition = (
        ("system prompt", prompt.source_start),
        ("accessible source", frontier),
        ("inaccessible source", len(prompt.token_word) - frontier),
        ("instruction", len(prompt.token_ids) - prompt.source_end - len(prefix)),
        ("accepted translation", len(prefix)),
        ("draft", len(draft.token_ids)),
    )
    return Reconstruction(
        tuple(source),
        accessible,
        _limit(policy, prompt, frontier),
        partition,
        accepted,
        tokens,
        tuple(words),
        decision.reason,
        len(readout.heads),
    )


def _limit(policy: Policy, prompt: Prompt, frontier: int) -> int:
    gate = policy.gate(frontier)
    margin = int(gate.settings.get("border_margin", 0)) if gate else len(prompt.token_word)
    first = max(0, frontier + margin)
    words = prompt.token_word
    return words[first] if first < len(words) else words[-1] + 1


def _texts(units: UnitDecoder, prefix: Sequence[int], draft: Sequence[int]) -> list[str]:
    """Text that each drafted token adds; a byte of an unfinished character adds nothing yet."""
    texts = []
    before = units.text(prefix)
    for count in range(1, len(draft) + 1):
        whole = units.text([*prefix, *draft[:count]])
        texts.append(whole[len(before) :].replace(BROKEN, ""))
        before = before if whole.endswith(BROKEN) else whole
    return texts
