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
from typing import Any

from jinja2 import TemplateError

from alignatt_agent.config.languages import Language, language, sample_tokens
from alignatt_agent.config.plain_text import encode_text, text_ids
from alignatt_agent.config.prompt import PromptConfig, PromptWording
from alignatt_agent.config.terms import Term, read_terms
from alignatt_agent.text.running_text import common_prefix, gaps, join_words
from alignatt_agent.types import AlignAttError, Prompt

DEFAULT = PromptWording()
"""The default wording."""

_MARKER = "\u2063source\u2063"
_ANSWER = "\u2063answer\u2063"
"""Texts that mark the source and the translation in a rendered template."""

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
        self._tokenizer = tokenizer
        self._terms = terms
        self._wording = wording
        self._languages = (source, target)
        if not getattr(tokenizer, "is_fast", True):
            raise PromptError(
                f"the tokenizer of {tokenizer.name_or_path} is slow ({type(tokenizer).__name__}) "
                "and does not return the characters of each token; add a tokenizer.json to the "
                "checkpoint"
            )
        names = {
            "source_language": wording.name(source),
            "target_language": wording.name(target),
            "context": context,
        }
        self._plain_before = wording.before.format(**names)
        self._plain_after = wording.after.format(**names)
        self._turns: list[dict[str, Any]] = []
        if not wording.chat:
            self._before = self._plain_before
            self._after = self._plain_after
            return
        system: str | None = None
        if wording.system is not None:
            system = wording.system.format(**names)
            self._turns.append({"role": "system", "content": system})
        user = self._plain_before + _MARKER + self._plain_after
        self._turns.append({"role": "user", "content": self._user_content(user)})
        opened = self._rendered(self._turns, add_generation_prompt=True)
        if opened.count(_MARKER) != 1:
            raise PromptError(
                f"the chat template of {tokenizer.name_or_path} changes the user turn, so the "
                "source span cannot be marked"
            )
        answer = {"role": "assistant", "content": _ANSWER}
        finished = self._rendered([*self._turns, answer])
        _refuse_reasoning(tokenizer, opened, finished, ours=(user, system or ""))
        self._before, self._after = opened.split(_MARKER)

    def _user_content(self, text: str) -> str | list[dict[str, str]]:
        """Return the content of the user turn."""
        if not self._wording.language_codes:
            return text
        # TranslateGemma's template expects the source with the codes of both languages.
        source, target = self._languages
        part = {
            "type": "text",
            "text": text,
            "source_lang_code": language(source).code,
            "target_lang_code": language(target).code,
        }
        return [part]

    def _rendered(self, turns: list[dict[str, Any]], **options: Any) -> str:
        # Templates of reasoning models read enable_thinking; other templates ignore it.
        options = {"enable_thinking": False, **self._wording.template_arguments, **options}
        try:
            text: str = self._tokenizer.apply_chat_template(turns, tokenize=False, **options)
        except (TemplateError, ValueError, TypeError) as error:
            roles = ", ".join(turn["role"] for turn in turns)
            hint = ""
            if self._wording.system is not None:
                hint = "; set prompt.system to null for a model without a system turn"
            raise PromptError(
                f"the chat template of {self._tokenizer.name_or_path} rejects the turns "
                f"{roles}: {error}{hint}"
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
        names: list[str] = []
        translated: list[tuple[Term, str]] = []
        for term in read_terms(context):
            translation = term.translation(target.code)
            if translation is None:
                names.append(term.text)
            else:
                translated.append((term, translation))

        def terms(words: Sequence[str]) -> str:
            entries: list[str] = []
            for term, translation in translated:
                if term.occurs(words):
                    entry = f"{term.text} = {translation}"
                    entries.append(entry)
            if not entries:
                return ""
            return prompt.terms.format(terms="; ".join(entries))

        names_text = ""
        if names:
            names_text = prompt.context.format(terms=", ".join(names))
        return cls(
            tokenizer,
            source=source.name,
            target=target.name,
            wording=prompt.wording(source.code, target.code),
            context=names_text,
            terms=terms,
        )

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text; it contains no control tokens (see ``encode_text``)."""
        return tuple(text_ids(self._tokenizer, text))

    @cached_property
    def expansion(self) -> float:
        """Return the number of target tokens that one source token may need, at least 1."""
        source, target = self._languages
        source_tokens = sample_tokens(self._tokenizer, source)
        target_tokens = sample_tokens(self._tokenizer, target)
        return max(1.0, target_tokens / source_tokens)

    @cached_property
    def _closing(self) -> tuple[str, str]:
        """Return the texts between a closed source, its translation and the next source.

        Chat turns are used if they do not change the text around the open source.
        """
        if not self._turns:
            return self._plain_after, self._plain_opening()
        # A template may reject a second user turn, or write another text around it.
        with suppress(PromptError):
            answer = {"role": "assistant", "content": _ANSWER}
            turns = [*self._turns, answer, self._turns[-1]]
            text = self._rendered(turns, add_generation_prompt=True)
            form = f"(.*){_MARKER}(.*){_ANSWER}(.*){_MARKER}(.*)"
            match = re.fullmatch(form, text, re.DOTALL)
            if match is not None:
                before, closing, again, after = match.groups()
                if before == self._before and after == self._after:
                    return closing, again
        # Without chat turns, a translation stands on the line after its source.
        return self._plain_after + "\n", self._plain_opening()

    def _plain_opening(self) -> str:
        """Return the text before a second source, without the token that begins a prompt."""
        begin = getattr(self._tokenizer, "bos_token", None) or ""
        return "\n\n" + self._plain_before.removeprefix(begin)

    def closed(
        self, words: Sequence[str], translation: Sequence[int], first: bool
    ) -> tuple[int, ...]:
        """Return the token ids of a closed sentence in the history, with its ``translation``."""
        closing, opening = self._closing
        if first:
            opening = self._before
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
        opening = self._before
        # After a history, the source follows the end of an answer.
        if history:
            _, opening = self._closing
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
    opened = opened.rstrip()
    finished, _, _ = finished.partition(_ANSWER)
    problem = _different_opening(opened, finished.rstrip()) or _own_thoughts(opened, ours)
    if not problem:
        return
    raise PromptError(
        f"the chat template of {tokenizer.name_or_path} {problem}: the model would write its "
        "thoughts, which would be emitted as translation; disable reasoning as the model card "
        "describes, with prompt.template_arguments or prompt.system; or write the whole turn in "
        "prompt.before and prompt.after and set prompt.chat to false; or use another model"
    )


def _different_opening(opened: str, finished: str) -> str:
    """Return how an answer begins in another way than a finished answer; empty if it does not."""
    same = common_prefix(opened, finished)
    only_opened = _CLOSED.sub("", opened[same:])
    # A finished answer may lack a closed reasoning turn.
    if same == len(finished) and not only_opened.strip():
        return ""
    begin = max(0, same - 20)
    return (
        f"opens an answer with {opened[begin:]!r}, but puts {finished[begin:]!r} before "
        "a finished answer"
    )


def _own_thoughts(opened: str, ours: Sequence[str]) -> str:
    """Return what the template itself writes about thoughts; empty if it writes nothing."""
    rest = opened
    for text in ours:
        if text.strip():
            rest = rest.replace(text.strip(), "\n")
    match = _THOUGHTS.search(_CLOSED.sub("", rest))
    if match is None:
        return ""
    return f"writes {match[0]!r}"


def _locate(
    offsets: Sequence[tuple[int, int]], words: Sequence[str], begin: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first source position and the word of every source token.

    A token belongs to the word of its last source character: a leading space to the next word,
    punctuation to the previous word, and a byte-fallback piece of an emoji to the emoji's word.
    """
    word_ends: list[int] = []
    length = 0
    for gap, word in zip(gaps(words), words, strict=True):
        length += len(gap + word)
        word_ends.append(length)
    end = begin + length

    # Tokens at the ends of the span may also contain characters of the template.
    inside: list[int] = []
    for position, (token_begin, token_end) in enumerate(offsets):
        if token_begin < end and token_end > begin:
            inside.append(position)
    first = inside[0]
    last = inside[-1]

    token_word: list[int] = []
    for token_begin, token_end in offsets[first : last + 1]:
        # A token may have no characters, or end after the source.
        last_char = max(token_end - 1, token_begin)
        source_char = min(last_char, end - 1) - begin
        word_index = bisect_right(word_ends, max(source_char, 0))
        token_word.append(word_index)
    return first, tuple(token_word)
