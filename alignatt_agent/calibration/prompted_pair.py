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
        # The text around the source is the same for every sentence.
        prompt = self.builder.build(["source"])
        return digest_of([prompt.token_ids])

    def __call__(self, pair: SentencePair, links: Links | PairError) -> AlignedPair:
        """Return the prompt, the translation's token IDs, and each token's source words."""
        if isinstance(links, PairError):
            raise links
        target_ids, offsets = encode_text(self.tokenizer, pair.target)
        words_of_unit: dict[int | None, list[int]] = {}
        for word, unit in sorted(links):
            words_of_unit.setdefault(unit, []).append(word)
        source_words: list[tuple[int, ...]] = []
        for unit_of_token in unit_of_tokens(pair, offsets):
            words = words_of_unit.get(unit_of_token, [])
            source_words.append(tuple(words))
        if not any(source_words):
            raise PairError("no_alignment")
        prompt = self.builder.build(pair.source)
        # One additional token is fed to read the last token's row, and one token is sampled.
        length = len(prompt.token_ids) + len(target_ids) + 2
        if length > self.max_context:
            raise PairError("too_long")
        return AlignedPair(prompt, tuple(target_ids), tuple(source_words))


def unit_of_tokens(pair: SentencePair, offsets: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the target unit of every token; ``None`` for white space and text between units.

    A token belongs to the unit of its last character: a leading space belongs to the next word, and
    a single byte belongs to its character.
    """
    unit_of_char: list[int | None] = [None] * len(pair.target)
    for unit, (begin, end) in enumerate(pair.spans):
        unit_of_char[begin:end] = [unit] * (end - begin)
    units: list[int | None] = []
    for begin, end in offsets:
        unit_of_token: int | None = None
        # A token that ends at 0 has no characters of the text.
        if end > 0:
            last_char = max(end - 1, begin)
            unit_of_token = unit_of_char[last_char]
        units.append(unit_of_token)
    return units
