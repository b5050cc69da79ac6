"""Convert aligned words to aligned tokens under the prompt that the agent uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alignatt_agent.calibration.head_scores import AlignedPair
from alignatt_agent.calibration.pairs import Links, PairError, SentencePair, digest_of
from alignatt_agent.config.plain_text import encode_text
from alignatt_agent.translation.prompt import PromptBuilder


@dataclass(frozen=True, slots=True)
class PairPrompter:
    """Builds the request for a pair as the agent does, with at most ``max_context`` tokens."""

    tokenizer: Any
    builder: PromptBuilder
    max_context: int

    def digest(self) -> str:
        """Return a hash of the prompt for one word (system text, template and tokenizer)."""
        return digest_of([self.builder.build(["source"]).token_ids])

    def __call__(self, pair: SentencePair, links: Links | PairError) -> AlignedPair:
        """Return the prompt, the translation's token IDs, and each token's source words."""
        if isinstance(links, PairError):
            raise links
        target, offsets = encode_text(self.tokenizer, pair.target)
        ids = tuple(target)
        units = unit_of_tokens(pair, offsets)
        words = tuple(tuple(sorted(i for i, j in links if j == unit)) for unit in units)
        if not any(words):
            raise PairError("no_alignment")
        prompt = self.builder.build(pair.source)
        # One additional token is fed to read the last token's row, and one token is sampled.
        if len(prompt.token_ids) + len(ids) + 2 > self.max_context:
            raise PairError("too_long")
        return AlignedPair(prompt, ids, words)


def unit_of_tokens(pair: SentencePair, offsets: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the target unit of every token; ``None`` for white space and text between units.

    A token belongs to the unit of its last character: a leading space belongs to the next word, and
    a single byte belongs to its character.
    """
    unit_of_char: list[int | None] = [None] * len(pair.target)
    for unit, (begin, end) in enumerate(pair.spans):
        unit_of_char[begin:end] = [unit] * (end - begin)
    return [unit_of_char[max(end - 1, begin)] if end else None for begin, end in offsets]
