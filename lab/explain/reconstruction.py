"""A single draft in detail: the request, the attention, and the decision of the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.policy import Policy
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.translation.units import BROKEN, UnitDecoder
from alignatt_agent.types import Draft, GatedDraft, SourceView, Word
from alignatt_agent.types.engines import DraftRequest, Readout, TranslationEngine
from lab.commands import table

PROVENANCE = ("accessible source", "inaccessible source", "other prompt", "suffix")


@dataclass(frozen=True, slots=True)
class DraftedWord:
    """A drafted word (a character, for scripts without spaces) and its source."""

    text: str
    provenance: npt.NDArray[np.float64]  # shares in the order of ``PROVENANCE``; they sum to 1
    peak: int | None  # source word of the gate's peak at its last scanned token


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """The parts of a draft that the terminal shows."""

    source: tuple[str, ...]
    accessible: int  # leading words that the policy may rely on
    gated: GatedDraft
    tokens: tuple[str, ...]  # what each drafted token adds to the text
    words: tuple[DraftedWord, ...]

    def __str__(self) -> str:
        """Source, draft and a table of the drafted words, for the terminal."""
        accessible = " ".join(self.source[: self.accessible])
        inaccessible = " ".join(self.source[self.accessible :])
        gated = self.gated
        shown = "".join(self.tokens[: gated.emitted]).strip()
        dropped = "".join(self.tokens[gated.emitted :]).strip()
        lines = [
            f"source  {accessible} | {inaccessible}",
            f"draft   {gated.accepted} > {shown} | {dropped}   ({gated.decision.reason})",
            table(map(self._row, self.words), ("word", "peak", *PROVENANCE)),
        ]
        return "\n".join(lines)

    def _row(self, word: DraftedWord) -> list[str]:
        """Return the texts of a drafted word in the table."""
        peak = "-" if word.peak is None else self.source[word.peak]
        shares = [f"{100 * share:.0f} %" for share in word.provenance]
        return [word.text, peak, *shares]


class _Recorder:
    """An engine that keeps its last request and draft."""

    def __init__(self, engine: TranslationEngine) -> None:
        self._engine = engine

    def draft(self, request: DraftRequest) -> Draft:
        self.prompt = request.prompt
        self.last = self._engine.draft(request)
        return self.last


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
    """Have a ``Translator`` draft once, and split its decision into tokens and words.

    The first ``accessible`` words of ``source``, at least one, are reliable; ``accepted`` is
    already emitted.
    """
    prefix: Sequence[int] = ()
    if accepted:
        prefix = tokenizer(accepted, add_special_tokens=False)["input_ids"]
    recorder = _Recorder(engine)
    translator = Translator(
        recorder, builder, tokenizer, readout, policy, spaced, max_tokens, early_stop=False
    )
    translator.remember((), accepted)
    # The times of the words do not matter here: the caller says how many are accessible.
    words = tuple(Word(text, 0.0, 0.0) for text in source)
    translator.update(SourceView(words, accessible))
    gated, prompt, draft = translator.gated, recorder.prompt, recorder.last
    assert gated is not None
    rows = draft.rows
    assert rows is not None
    frontier = sum(word < accessible for word in prompt.token_word)
    units = UnitDecoder(tokenizer, spaced)
    texts = _texts(units, prefix, draft.token_ids)
    drafted_words = []
    for begin, end in pairwise(units.boundaries(draft.token_ids)):
        source_row = np.asarray(rows.source[begin:end], np.float64).mean(axis=(0, 1))
        provenance = [
            source_row[:frontier].sum(),
            source_row[frontier:].sum(),
            rows.prompt[begin:end].mean(),
            rows.suffix[begin:end].mean(),
        ]
        # The gate stops at the first token that it rejects, so later words have no peaks.
        peaks = gated.words[begin:end]
        drafted_word = DraftedWord(
            text="".join(texts[begin:end]).strip(),
            provenance=np.asarray(provenance),
            peak=peaks[-1] if peaks else None,
        )
        drafted_words.append(drafted_word)
    return Reconstruction(
        source=tuple(source),
        accessible=accessible,
        gated=gated,
        tokens=tuple(texts),
        words=tuple(drafted_words),
    )


def _texts(units: UnitDecoder, prefix: Sequence[int], draft: Sequence[int]) -> list[str]:
    """Text that each drafted token adds; a byte of an unfinished character adds nothing yet."""
    texts = []
    before = units.text(prefix)
    for count in range(1, len(draft) + 1):
        whole = units.text([*prefix, *draft[:count]])
        texts.append(whole[len(before) :].replace(BROKEN, ""))
        if not whole.endswith(BROKEN):
            before = whole
    return texts
