"""Build requests to a recognizer with the chat template of its checkpoint."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.config.languages import sample_tokens
from alignatt_agent.config.plain_text import control_tokens
from alignatt_agent.types import AlignAttError

_TOKENS_PER_S = 12
"""Limit of a transcript, in tokens per second; fast English needs less than 8."""

_TOKENS_AT_LEAST = 24
"""Tokens that are added to the limit of a transcript."""

_SAMPLE_S = 2.0
"""Minimum seconds for a language's sample sentence, i.e. 39 letters per second in English."""


class ChatTemplateError(AlignAttError, ValueError):
    """A chat template cannot build a request; the message states the checkpoint, reason and fix."""


class ContextError(AlignAttError, ValueError):
    """A model cannot process the names and terms; the message states the reason."""


class ChatPrompt:
    """Serializes requests with the chat template of a recognizer's checkpoint.

    ``template`` is the processor or tokenizer that contains the template, and ``tokenizer`` is that
    of the engine that receives the ids. Error messages contain ``name``.

    Raises:
        ChatTemplateError: the checkpoint has no template, or none with a placeholder for audio.
    """

    longest_s: float | None = None  # maximum seconds of audio in a request; None: the whole tail
    tokens_per_s: int  # audio tokens from the encoder per second

    def __init__(self, template: Any, tokenizer: Any, name: str) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._name = name
        self._audio: str = getattr(template, "audio_token", None) or ""
        if not self._audio:
            raise ChatTemplateError(f"{name}: the tokenizer has no token for audio")
        self.ids = lru_cache(maxsize=64)(self._ids)
        # A template that cannot build a request is rejected before a model is loaded.
        self.ids("English")

    def _ids(self, language: str, context: str = "") -> tuple[int, ...]:
        """Return the prompt's token ids, with one placeholder for the audio."""
        check_plain(self._tokenizer, context, self._name)
        text = self._text(language, context)
        count = text.count(self._audio)
        if count != 1:
            raise ChatTemplateError(
                f"{self._name}: the chat template writes {self._audio} {count} times "
                "for one recording; expected the published template of the model"
            )
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _text(self, language: str, context: str) -> str:
        raise NotImplementedError

    def _rendered(self, turns: Sequence[dict[str, Any]], **options: Any) -> str:
        try:
            text: str = self._template.apply_chat_template(
                list(turns), tokenize=False, add_generation_prompt=True, **options
            )
        # A ``TypeError`` comes from a text template, which cannot join a list of parts.
        except (TemplateError, TypeError) as error:
            roles = ", ".join(turn["role"] for turn in turns)
            fix = "choose another checkpoint"
            if len(turns) > 1:
                fix = "leave speech.context empty"
            raise ChatTemplateError(
                f"{self._name}: the chat template rejects the turns {roles}: {error}; {fix}"
            ) from error
        # Transformers found no template.
        except ValueError as error:
            raise ChatTemplateError(
                f"{self._name}: there is no chat template ({error}); expected one next to "
                "config.json, in chat_template.json: fetch the complete checkpoint"
            ) from error
        return text

    def room(self, ids: tuple[int, ...]) -> int:
        """Return the maximum length of an answer, in tokens; the engine enforces its own window."""
        return sys.maxsize

    def check_context(self, context: str, window: int, longest_s: float, language: str) -> None:
        """Reject a context that leaves no space for ``longest_s`` of audio and the transcript.

        ``window`` is the maximum length of a request with its answer, in tokens.
        """
        seconds = self.longest_s or longest_s
        prompt_tokens = len(self.ids("English"))
        context_tokens = len(self.ids("English", context)) - prompt_tokens
        audio_tokens = round(self.tokens_per_s * seconds)
        answer_tokens = longest_answer(seconds, self._tokenizer, language)
        room = window - prompt_tokens - audio_tokens - answer_tokens
        if context_tokens > room:
            raise ContextError(
                f"speech.context is {context_tokens} tokens long for {self._name}; "
                f"with {seconds:.0f} s of audio and the transcript, "
                f"the window of {window} tokens has {max(room, 0)} left: "
                "shorten it, raise models.asr.engine.max_model_len, or lower speech.max_tail_s"
            )


class RecognitionPrompt(ChatPrompt):
    """Builds requests to Qwen3-ASR with a forced language.

    The published template always writes a system turn, which is empty or contains the context. A
    template that omits an empty turn is accepted, because its model was trained in this way.
    """

    tokens_per_s = 13

    def _text(self, language: str, context: str) -> str:
        find_language(language).check_spoken(aligned=False)
        turns: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "audio"}]}]
        # The template itself writes an empty system turn.
        if context:
            turns.insert(0, {"role": "system", "content": context})
        text = self._rendered(turns)
        if context not in text:
            raise ChatTemplateError(
                f"{self._name}: the chat template changes or omits the system turn "
                f"{context[:60]!r}; leave speech.context empty"
            )
        return f"{text}language {language}<asr_text>"


def check_plain(tokenizer: Any, context: str, name: str) -> None:
    """Reject a context that contains a control token of the checkpoint ``name``."""
    for token in sorted(control_tokens(tokenizer)):
        if token in context:
            raise ContextError(
                f"speech.context contains {token!r}, a control token of {name}; remove it"
            )


def longest_answer(seconds: float, tokenizer: Any, language: str) -> int:
    """Return the maximum length of a transcript, in tokens, so that no loop delays a chunk."""
    # Some scripts need many more tokens than English for the same speech.
    sample_per_s = sample_tokens(tokenizer, language) / _SAMPLE_S
    per_s = max(_TOKENS_PER_S, sample_per_s)
    return _TOKENS_AT_LEAST + round(per_s * seconds)
