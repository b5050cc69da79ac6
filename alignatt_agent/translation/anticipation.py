"""Test drafted tokens with anticipated continuations of the heard words.

A token that depends on words that were not heard differs between continuations. As in TAF (Ouyang
et al., NAACL 2025, arXiv 2410.22499), the continuations come from a language model, here from the
translation model itself. TAF translates ten sampled continuations and takes the majority. Here, the
continuations are greedy and all have to agree, and the engine only verifies the tokens that the
gate accepts.
"""

from collections.abc import Callable, Iterator, Sequence

from alignatt_agent.text.running_text import common_prefix, is_unspaced, join_words, split_words
from alignatt_agent.text.sentences import ends_sentence
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import DraftRequest

WORDS = 6
"""Maximum number of anticipated words."""
TOKENS = 12
"""Maximum number of tokens of a continuation."""
SPOKEN_SENTENCES = 3
"""Number of closed sentences that are kept for the beginnings of continuations."""

Build = Callable[[Sequence[str], Sequence[int]], Prompt]
"""Creates a prompt from a source and the translation so far."""


class Anticipator:
    """Continues the heard words, and lets the model translate them with each continuation.

    Args:
        draft: drafts a request.
        builder: builds prompts of bare text.
        units: decodes tokens.
    """

    def __init__(
        self, draft: Callable[[DraftRequest], Draft], builder: PromptBuilder, units: UnitDecoder
    ) -> None:
        self._draft = draft
        self._builder = builder
        self._units = units

    def surviving(
        self,
        build: Build,
        heard: Sequence[str],
        spoken: Sequence[str],
        prefix: tuple[int, ...],
        tokens: tuple[int, ...],
    ) -> Iterator[int]:
        """Yield, for each continuation, the number of leading ``tokens`` that the model keeps.

        Args:
            build: creates the prompt of a translation.
            heard: the accessible words of the open sentence.
            spoken: closed sentences before it. Continuations differ because they follow the last 0,
                1, 2, ... of these sentences.
            prefix: the accepted translation.
            tokens: drafted tokens that continue ``prefix``.
        """
        for count in range(len(spoken) + 1):
            before = spoken[len(spoken) - count :]
            words = self._continued(before, heard)
            request = DraftRequest(
                prompt=build(words, prefix),
                max_tokens=len(tokens),
                readout=None,
                expected=tokens,
            )
            yield common_prefix(tokens, self._draft(request).token_ids)

    def _continued(self, before: Sequence[str], heard: Sequence[str]) -> list[str]:
        """Return ``heard`` with at most ``WORDS`` further words of the sentence."""
        text = join_words(heard)
        prompt = self._builder.bare(" ".join([*before, text]))
        draft = self._draft(DraftRequest(prompt, TOKENS, readout=None))
        # A line break ends the text as an end of turn does.
        continuation, line_break, _ = self._units.text(draft.token_ids).partition("\n")
        words = split_words(text + _from_next_word(text, continuation))
        complete = draft.ended or line_break
        if len(words) > len(heard) and not complete:
            words.pop()
        following = [*words[1:], ""]
        for place in range(len(heard) - 1, len(words)):
            if ends_sentence(words[place], following[place]):
                return words[: place + 1]
        return words[: len(heard) + WORDS]


def _from_next_word(text: str, continuation: str) -> str:
    """Remove letters that would continue the last heard word, which is complete."""
    glued = continuation[:1].isalnum()
    # In a script without spaces, every character is a word.
    if not glued or is_unspaced(text[-1]) or is_unspaced(continuation):
        return continuation
    _, space, rest = continuation.partition(" ")
    return space + rest
