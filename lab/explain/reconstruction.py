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
        heard, rest = self.source[: self.accessible], self.source[self.accessible :]
        gated, emitted = self.gated, self.gated.emitted
        shown, dropped = "".join(self.tokens[:emitted]), "".join(self.tokens[emitted:])
        rows = [
            (
                word.text,
                "-" if word.peak is None else self.source[word.peak],
                *(f"{100 * share:.0f} %" for share in word.provenance),
            )
            for word in self.words
        ]
        return (
            f"source  {' '.join(heard)} | {' '.join(rest)}\n"
            f"draft   {gated.accepted} > {shown.strip()} | {dropped.strip()}   "
            f"({gated.decision.reason})\n{table(rows, ('word', 'peak', *PROVENANCE))}"
        )


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
    prefix = tuple(tokenizer(accepted, add_special_tokens=False)["input_ids"]) if accepted else ()
    recorder = _Recorder(engine)
    translator = Translator(
        recorder, builder, tokenizer, readout, policy, spaced, max_tokens, early_stop=False
    )
    translator.remember((), accepted)
    translator.update(SourceView(tuple(Word(text, 0.0, 0.0) for text in source), accessible))
    gated, prompt, draft = translator.gated, recorder.prompt, recorder.last
    assert gated is not None
    frontier = sum(word < accessible for word in prompt.token_word)
    units = UnitDecoder(tokenizer, spaced)
    texts = _texts(units, prefix, draft.token_ids)
    words = []
    rows = draft.rows
    assert rows is not None
    for at in (slice(*cut) for cut in pairwise(units.boundaries(draft.token_ids))):
        row = np.asarray(rows.source[at], np.float64).mean(axis=(0, 1))
        other, suffix = (part[at].mean() for part in (rows.prompt, rows.suffix))
        words.append(
            DraftedWord(
                "".join(texts[at]).strip(),
                np.asarray([row[:frontier].sum(), row[frontier:].sum(), other, suffix]),
                gated.words[at][-1] if gated.words[at] else None,
            )
        )
    return Reconstruction(tuple(source), accessible, gated, tuple(texts), tuple(words))


def _texts(units: UnitDecoder, prefix: Sequence[int], draft: Sequence[int]) -> list[str]:
    """Text that each drafted token adds; a byte of an unfinished character adds nothing yet."""
    texts = []
    before = units.text(prefix)
    for count in range(1, len(draft) + 1):
        whole = units.text([*prefix, *draft[:count]])
        texts.append(whole[len(before) :].replace(BROKEN, ""))
        before = before if whole.endswith(BROKEN) else whole
    return texts
