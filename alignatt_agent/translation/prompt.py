"""Prompt of Eq. 1: system prompt, marked source span, instruction, accepted translation.

The token ids are built once and submitted as they are; the source span is located in the very
same ids, so the map from tokens to words cannot drift from what the engine sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jinja2 import TemplateError

from alignatt_agent.config.languages import Language
from alignatt_agent.config.sections import PromptConfig, PromptWording
from alignatt_agent.running_text import gaps, join_words
from alignatt_agent.types import AlignAttError, Prompt

DEFAULT = PromptWording()
"""The wording of a configuration that says nothing about it."""

_MARKER = "\u2063source\u2063"


class PromptError(AlignAttError, ValueError):
    """A prompt cannot be serialised for a model; the message says why and what to change."""


class PromptMaker(Protocol):
    """Serialises a source and an accepted translation."""

    def build(self, words: Sequence[str], accepted: Sequence[int] = ()) -> Prompt:
        """Return the prompt for ``words`` continued after ``accepted``."""


class PromptBuilder:
    """Serialises requests for one language direction with the model's own chat template.

    Args:
        tokenizer: a fast Transformers tokenizer with a chat template.
        source: English name of the source language, e.g. ``"English"``.
        target: English name of the target language, e.g. ``"German"``.
        wording: what stands around the source.
        context: what ``{context}`` in the wording stands for; ``""`` for nothing.

    Raises:
        PromptError: the template refuses the turns, or alters the source text, so that its span
            cannot be marked; or the tokenizer does not tell which characters a token covers.
    """

    def __init__(
        self,
        tokenizer: Any,
        source: str,
        target: str,
        wording: PromptWording = DEFAULT,
        context: str = "",
    ) -> None:
        self._tokenizer, model = tokenizer, tokenizer.name_or_path
        if not getattr(tokenizer, "is_fast", True):
            raise PromptError(
                f"the tokenizer of {model} is a slow one ({type(tokenizer).__name__}), which does "
                "not tell which characters a token covers; the checkpoint needs a tokenizer.json"
            )
        names = {
            "source_language": wording.name(source),
            "target_language": wording.name(target),
            "context": context,
        }
        before, after = (text.format(**names) for text in (wording.before, wording.after))
        if not wording.chat:
            self._before, self._after = before, after
            return
        turns = [{"role": "user", "content": before + _MARKER + after}]
        if wording.system is not None:
            turns.insert(0, {"role": "system", "content": wording.system.format(**names)})
        try:
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except (TemplateError, ValueError) as error:
            hint = "; set prompt.system to null for a model without a system turn"
            raise PromptError(
                f"the chat template of {model} refuses the prompt: {error}"
                + (hint if wording.system is not None else "")
            ) from error
        if text.count(_MARKER) != 1:
            raise PromptError(
                f"the chat template of {model} does not reproduce the user turn; the source span "
                "cannot be marked"
            )
        self._before, self._after = text.split(_MARKER)

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        prompt: PromptConfig,
        source: Language,
        target: Language,
        context: str = "",
    ) -> PromptBuilder:
        """Return the builder of a direction, as a configuration words it.

        Args:
            tokenizer: as above.
            prompt: the wording of all directions.
            source: the spoken language.
            target: the language of the translation.
            context: names and terms of the talk, one in a line.
        """
        wording = prompt.wording(source.code, target.code)
        terms = prompt.context.format(terms=", ".join(context.splitlines())) if context else ""
        return cls(tokenizer, source.name, target.name, wording, terms)

    def build(self, words: Sequence[str], accepted: Sequence[int] = ()) -> Prompt:
        """Build the prompt for ``words`` continued after the ``accepted`` target ids.

        Raises:
            ValueError: there is no word, or a word is blank or contains white space.
        """
        if not words or any(len(word.split()) != 1 for word in words):
            raise ValueError(
                f"the source must be non-blank words without spaces, got {list(words)!r}"
            )
        text = self._before + join_words(words) + self._after
        encoding = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        start, token_word = _locate(encoding["offset_mapping"], words, len(self._before))
        return Prompt(tuple(encoding["input_ids"]) + tuple(accepted), start, token_word)


def _locate(
    offsets: Sequence[tuple[int, int]], words: Sequence[str], begin: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first source position and the word of every source token.

    A token belongs to the word that holds its last source character: a leading space goes with
    the word after it, punctuation with the word before it, a byte-fallback piece of an emoji with
    the word that contains the emoji.
    """
    word_of_char: list[int] = []
    for index, (gap, word) in enumerate(zip(gaps(words), words, strict=True)):
        word_of_char.extend([index] * len(gap + word))
    end = begin + len(word_of_char)
    positions = [i for i, (a, b) in enumerate(offsets) if a < end and b > begin]
    first, last = positions[0], positions[-1]
    token_word: list[int] = []
    for i in range(first, last + 1):
        a, b = offsets[i]
        char = min(max(b - 1, a), end - 1) - begin
        token_word.append(word_of_char[max(char, 0)])
    return first, tuple(token_word)
