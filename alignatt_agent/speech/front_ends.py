"""Build requests to Whisper and to the audio tower of the translation model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from alignatt_agent.config.languages import Language, LanguageError
from alignatt_agent.config.languages import language as find_language
from alignatt_agent.engine.cpu_whisper import whisper_tokenizer
from alignatt_agent.speech.prompt import (
    ChatPrompt,
    ChatTemplateError,
    ContextError,
    RecognitionPrompt,
    check_plain,
)

WHISPER = "whisper"
GEMMA4_AUDIO = "gemma4-audio"

LONGEST_S = 30.0
"""Maximum length of one request's audio, in seconds."""

_ENGLISH_ONLY = 50256
"""End-of-text id in GPT-2's vocabulary, which only Whisper's English-only checkpoints use."""

_WINDOW = 448
"""Token limit for Whisper's context, control tokens and transcript; half is for the context."""


class WhisperPrompt:
    """Builds the token ids that Whisper's decoder continues; error messages contain ``name``."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._name = name
        # The prompt is the same for every chunk of a stream.
        self.ids = lru_cache(maxsize=64)(self._ids)

    def _ids(self, language: str, context: str = "") -> tuple[int, ...]:
        """Return the decoder's ids: the context as earlier speech, the language, and the task."""
        spoken = find_language(language)
        begin = self._control("<|startoftranscript|>")
        task = self._control("<|transcribe|>")
        plain = self._control("<|notimestamps|>")
        if self._tokenizer.eos_token_id != _ENGLISH_ONLY:
            earlier = self._earlier(context)
            return (*earlier, begin, self._language(spoken), task, plain)
        # An English-only checkpoint was trained without tokens for the language and the task.
        if spoken.code != "en":
            raise LanguageError(f"{self._name} recognizes only English, not {spoken.name}")
        return (*self._earlier(context), begin, plain)

    def _language(self, spoken: Language) -> int:
        vocabulary = self._tokenizer.get_vocab()
        for code in (spoken.code, *spoken.also):
            token_id = vocabulary.get(f"<|{code}|>")
            if token_id is not None:
                return int(token_id)
        raise LanguageError(f"{self._name} has no token for {spoken.name} ({spoken.code})")

    def _earlier(self, context: str) -> tuple[int, ...]:
        if not context:
            return ()
        check_plain(self._tokenizer, context, self._name)
        # As in Whisper's own code, earlier speech begins with a space.
        text = " " + ", ".join(context.split("\n"))
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        room = _WINDOW // 2 - 1
        if len(ids) > room:
            raise ContextError(
                f"speech.context is {len(ids)} tokens long for {self._name}, which accepts at "
                f"most {room}: shorten the context"
            )
        return (self._control("<|startofprev|>"), *ids)

    def _control(self, token: str) -> int:
        token_id = self._tokenizer.get_vocab().get(token)
        if token_id is None:
            raise ChatTemplateError(
                f"{self._name}: the tokenizer has no {token}; expected a multilingual Whisper"
            )
        return int(token_id)

    def room(self, ids: tuple[int, ...]) -> int:
        """Return the maximum length of an answer, in tokens."""
        return _WINDOW - len(ids)

    def check_context(self, context: str, window: int, longest_s: float, language: str) -> None:
        """Reject a context that is too long for the decoder; the audio's length has no effect."""
        self._earlier(context)


class GemmaPrompt(ChatPrompt):
    """Builds requests to the audio tower of the translation model, with our own wording.

    ``window`` is the maximum length of a request with its answer, in tokens.
    """

    longest_s = LONGEST_S
    tokens_per_s = 25

    def __init__(self, tokenizer: Any, name: str, window: int) -> None:
        super().__init__(tokenizer, tokenizer, name)
        self._window = window

    def _text(self, language: str, context: str) -> str:
        request = f"Write down what is said, in {language} and word for word, nothing else."
        if context:
            terms = ", ".join(context.split("\n"))
            request += f" Names and terms that may occur: {terms}."
        turns = [{"role": "user", "content": f"{request}\n{self._audio}"}]
        return self._rendered(turns, enable_thinking=False)

    def room(self, ids: tuple[int, ...]) -> int:
        """Return the maximum length of an answer to the longest audio, in tokens."""
        return self._window - len(ids) - round(self.tokens_per_s * LONGEST_S)


@lru_cache(maxsize=4)
def front_end_prompt(
    recognizer: str, checkpoint: str, window: int
) -> RecognitionPrompt | WhisperPrompt | GemmaPrompt:
    """Build the prompt of a recognizer from its checkpoint's directory, without a running engine.

    ``window`` is the maximum length of a request with its answer, in tokens.
    """
    name = f"asr model {checkpoint}"
    if recognizer not in (WHISPER, GEMMA4_AUDIO):
        from transformers.models.qwen3_asr import Qwen3ASRProcessor

        processor = Qwen3ASRProcessor.from_pretrained(checkpoint)
        return RecognitionPrompt(processor, processor.tokenizer, name)
    if recognizer == WHISPER:
        return WhisperPrompt(whisper_tokenizer(checkpoint), name)
    from transformers import AutoTokenizer

    return GemmaPrompt(AutoTokenizer.from_pretrained(checkpoint), name, window)
