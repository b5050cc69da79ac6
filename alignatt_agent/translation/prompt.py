"""Build the prompt of Eq. 1: system prompt, marked source, instruction, accepted translation.

The source span is located in the submitted token ids, so the map from tokens to words
always matches the input of the engine.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from typing import Any

from jinja2 import TemplateError

from alignatt_agent.config.languages import Language, language, sample_tokens
from alignatt_agent.config.plain_text import encode_text, text_ids
from alignatt_agent.config.prompt import PromptConfig, PromptWording
from alignatt_agent.config.terms import read_terms
from alignatt_agent.types import AlignAttError, Prompt
from alignatt_agent.types.running_text import common_prefix, gaps, join_words

DEFAULT = PromptWording()
"""The default wording."""

_MARKER, _ANSWER = "\u2063source\u2063", "\u2063answer\u2063"

_CLOSED = re.compile(
    r"(<think>\s*)?</think>|<\|channel>thought\s*<channel\|>|\[THINK\]\s*\[/THINK\]"
    r"|(Reasoning Mode: )?/no_?think"
)
"""Texts with which templates close a reasoning turn immediately, or disable reasoning."""

_THOUGHTS = re.compile(r"(?i)(?<![a-z])(think(ing)?|reason(s|ing)?|thoughts?)(?![a-z]).{,20}")


class PromptError(AlignAttError, ValueError):
    """A prompt cannot be serialized for a model; the message gives the reason and the fix."""


class PromptBuilder:
    """Serializes requests for one language direction with the model's chat template.

    Args:
        tokenizer: a fast Transformers tokenizer with a chat template.
        source: English name of the source language, e.g. ``"English"``.
        target: English name of the target language.
        wording: the text around the source.
        context: the text for ``{context}`` in the wording.
        terms: returns the text after a source, given its words; empty if they contain no term.

    Raises:
        PromptError: the template or the tokenizer is unsuitable.
    """

    def __init__(
        self,
        tokenizer: Any,
        source: str,
        target: str,
        wording: PromptWording = DEFAULT,
        context: str = "",
        terms: Callable[[Sequence[str]], str] = lambda words: "",
    ) -> None:
        self._tokenizer, model = tokenizer, tokenizer.name_or_path
        self._terms, self._wording, self._languages = terms, wording, (source, target)
        if not getattr(tokenizer, "is_fast", True):
            raise PromptError(
                f"the tokenizer of {model} is slow ({type(tokenizer).__name__}) and does "
                "not return the characters of each token; add a tokenizer.json to the checkpoint"
            )
        names = {
            "source_language": wording.name(source),
            "target_language": wording.name(target),
            "context": context,
        }
        before, after = (text.format(**names) for text in (wording.before, wording.after))
        self._turns: list[dict[str, Any]] = []
        self._plain = self._before, self._after = before, after
        if not wording.chat:
            return
        user = before + _MARKER + after
        content: Any = user
        if wording.language_codes:
            codes = {"source_lang_code": language(source), "target_lang_code": language(target)}
            content = [{"type": "text", "text": user} | {k: side.code for k, side in codes.items()}]
        turns = self._turns = [{"role": "user", "content": content}]
        if wording.system is not None:
            turns.insert(0, {"role": "system", "content": wording.system.format(**names)})
        text = self._rendered(turns, add_generation_prompt=True)
        if text.count(_MARKER) != 1:
            raise PromptError(
                f"the chat template of {model} changes the user turn, so the source span "
                "cannot be marked"
            )
        finished = [*turns, {"role": "assistant", "content": _ANSWER}]
        ours = [user, *(turn["content"] for turn in turns[:-1])]
        _refuse_reasoning(tokenizer, text, self._rendered(finished), ours)
        self._before, self._after = text.split(_MARKER)

    def _rendered(self, turns: list[dict[str, Any]], **options: Any) -> str:
        options = {"enable_thinking": False, **self._wording.template_arguments, **options}
        try:
            text: str = self._tokenizer.apply_chat_template(turns, tokenize=False, **options)
        except (TemplateError, ValueError, TypeError) as error:
            hint = "; set prompt.system to null for a model without a system turn"
            raise PromptError(
                f"the chat template of {self._tokenizer.name_or_path} rejects the turns "
                f"{', '.join(turn['role'] for turn in turns)}: {error}"
                + (hint if self._wording.system is not None else "")
            ) from error
        return text

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        prompt: PromptConfig,
        source: Language,
        target: Language,
        context: str = "",
    ) -> PromptBuilder:
        """Return the builder of a direction; ``context`` contains names and terms, one per line."""
        every = [(term, term.translation(target.code)) for term in read_terms(context)]
        plain = ", ".join(term.text for term, translation in every if translation is None)

        def terms(words: Sequence[str]) -> str:
            pairs = (pair for pair in every if pair[1] is not None and pair[0].occurs(words))
            found = "; ".join(f"{term.text} = {translation}" for term, translation in pairs)
            return prompt.terms.format(terms=found) if found else ""

        listed = prompt.context.format(terms=plain) if plain else ""
        wording = prompt.wording(source.code, target.code)
        return cls(tokenizer, source.name, target.name, wording, listed, terms)

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text; it contains no control tokens (see ``encode_text``)."""
        return tuple(text_ids(self._tokenizer, text))

    @cached_property
    def expansion(self) -> float:
        """Return the number of target tokens that one source token may need, at least 1."""
        source, target = (sample_tokens(self._tokenizer, name) for name in self._languages)
        return max(1.0, target / source)

    @cached_property
    def _closing(self) -> tuple[str, str]:
        """Return the texts between a closed source, its translation and the next source.

        Chat turns are used if they do not change the text around the open source.
        """
        if self._turns:
            answer = {"role": "assistant", "content": _ANSWER}
            turns = [*self._turns, answer, self._turns[-1]]
            with suppress(PromptError):
                text = self._rendered(turns, add_generation_prompt=True)
                form = f"(.*){_MARKER}(.*){_ANSWER}(.*){_MARKER}(.*)"
                found = re.fullmatch(form, text, re.DOTALL)
                if found and (found[1], found[4]) == (self._before, self._after):
                    return found[2], found[3]
        before, after = self._plain
        begin = getattr(self._tokenizer, "bos_token", None) or ""
        return after + "\n" * bool(self._turns), "\n\n" + before.removeprefix(begin)

    def closed(
        self, words: Sequence[str], translation: Sequence[int], first: bool
    ) -> tuple[int, ...]:
        """Return the token ids of a closed sentence in the history, with its ``translation``."""
        closing, again = self._closing
        opening = self._before if first else again
        ids, _ = self._encoded(opening, words, closing)
        return (*ids, *translation)

    def build(
        self, words: Sequence[str], accepted: Sequence[int] = (), history: Sequence[int] = ()
    ) -> Prompt:
        """Build the prompt for ``words``, to be continued after the ``accepted`` target ids.

        ``history`` is the concatenation of the previous sentences (see ``closed``).
        """
        if not words or any(len(word.split()) != 1 for word in words):
            raise ValueError(
                f"the source must consist of non-blank words without spaces, got {list(words)!r}"
            )
        opening = self._closing[1] if history else self._before
        source, offsets = self._encoded(opening, words, self._after)
        start, token_word = _locate(offsets, words, len(opening))
        ids = (*history, *source, *accepted)
        return Prompt(ids, len(history) + start, token_word)

    def _encoded(
        self, opening: str, words: Sequence[str], closing: str
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids and offsets of a source and its terms between two texts of the template.

        The source and the terms are encoded as text, so they cannot end a turn.
        """
        source = join_words(words) + self._terms(words)
        text = opening + source + closing
        end = len(opening) + len(source)
        return encode_text(self._tokenizer, text, begin=len(opening), end=end)


def _refuse_reasoning(tokenizer: Any, opened: str, finished: str, ours: Sequence[str]) -> None:
    """Reject a template that makes the model reason before it answers.

    The generation prompt must be the start of a ``finished`` turn, except for white space and a
    closed reasoning turn, and only the texts in ``ours`` may mention thoughts.
    """
    rest = opened = opened.rstrip()
    finished = finished.partition(_ANSWER)[0].rstrip()
    same = common_prefix(opened, finished)
    for text in filter(str.strip, ours):
        rest = rest.replace(text.strip(), "\n")
    problem = ""
    if opened != finished and (same < len(finished) or _CLOSED.sub("", opened[same:]).strip()):
        begin = max(0, same - 20)
        problem = f"opens an answer with {opened[begin:]!r}, but puts {finished[begin:]!r} before "
        problem += "a finished answer"
    elif found := _THOUGHTS.search(_CLOSED.sub("", rest)):
        problem = f"writes {found[0]!r}"
    if not problem:
        return
    raise PromptError(
        f"the chat template of {tokenizer.name_or_path} {problem}: the model would write its "
        "thoughts, which would be emitted as translation; disable reasoning as the model card "
        "describes, with prompt.template_arguments or prompt.system; or write the whole turn in "
        "prompt.before and prompt.after and set prompt.chat to false; or use another model"
    )


def _locate(
    offsets: Sequence[tuple[int, int]], words: Sequence[str], begin: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first source position and the word of every source token.

    A token belongs to the word of its last source character: a leading space to the next word,
    punctuation to the previous word, and a byte-fallback piece of an emoji to the emoji's word.
    """
    ends = list(accumulate(len(gap + word) for gap, word in zip(gaps(words), words, strict=True)))
    end = begin + ends[-1]
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > begin]
    first, last = inside[0], inside[-1]
    chars = (min(max(b - 1, a), end - 1) - begin for a, b in offsets[first : last + 1])
    return first, tuple(bisect_right(ends, max(char, 0)) for char in chars)
