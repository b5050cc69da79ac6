"""Check the requests to the models, including names and terms, before a model is loaded."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from alignatt_agent.config.checkpoints import require_tokenizer
from alignatt_agent.config.languages import language
from alignatt_agent.config.plain_text import text_ids
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.terms import spoken_terms
from alignatt_agent.engine.arguments import window_of
from alignatt_agent.speech.front_ends import front_end_prompt
from alignatt_agent.speech.prompt import ContextError, check_plain
from alignatt_agent.translation.prompt import PromptBuilder


def check_requests(resolved: Resolved, longest_s: float | None = None) -> None:
    """Reject a configuration whose models cannot process the requests, including names and terms.

    ``longest_s`` is the maximum length of a request's audio; ``None`` means that of a stream.
    """
    config, models = resolved.config, resolved.checkpoints
    for role in models.engine_roles:
        require_tokenizer(role, getattr(models, role))
    source = language(config.source_language)
    tokenizer = _tokenizer(models.translation.path)
    # Without a head set, any target is possible, so the check also uses the source language.
    targets = [source]
    for code in resolved.head_sets:
        target = language(code)
        targets.append(target)
    for target in targets:
        PromptBuilder.of(tokenizer, config.prompt, source, target)
    recognition_prompt = front_end_prompt(
        config.speech.recognizer, models.asr.path, window_of(models.asr)
    )
    recognition_prompt.ids(source.name)
    check_contexts(resolved, longest_s)
    prompt = config.prompt
    window = window_of(models.translation)
    if prompt.history and prompt.history_tokens > window / 2:
        raise ContextError(
            f"prompt.history_tokens is {prompt.history_tokens}, more than half of the window ("
            f"{window}) of translation model {models.translation.path}: lower it, or raise "
            "models.translation.engine.max_model_len"
        )


def check_contexts(
    resolved: Resolved, longest_s: float | None = None, contexts: Sequence[str] | None = None
) -> None:
    """Reject terms (by default, the configured terms) that do not fit into a model's window."""
    speech = resolved.config.speech
    if contexts is None:
        contexts = tuple(speech.contexts.values())
    texts = [text for text in contexts if text]
    if not texts:
        return
    # An overlong tail may exceed the maximum by half before it is cut.
    longest_s = longest_s or 1.5 * speech.max_tail_s
    asr = resolved.checkpoints.asr
    window = window_of(asr)
    prompt = front_end_prompt(speech.recognizer, asr.path, window)
    for text in texts:
        # A recognizer receives the terms without their translations.
        terms = spoken_terms(text)
        prompt.check_context(terms, window, longest_s, resolved.config.source_language)
    model = resolved.checkpoints.translation
    tokenizer = _tokenizer(model.path)
    window = window_of(model)
    check_plain(tokenizer, "\n".join(texts), f"translation model {model.path}")
    longest = max(len(tokenizer(text)["input_ids"]) for text in texts)
    if longest > window / 2:
        raise ContextError(
            f"speech.context is {longest} tokens long for translation model {model.path}, more "
            f"than half of its window ({window}): shorten the context, or raise "
            "models.translation.engine.max_model_len"
        )


def check_beginning(resolved: Resolved, text: str) -> None:
    """Reject the translation of an open sentence that takes more than half of the model's window.

    The text is encoded as plain text, so control tokens are allowed.
    """
    model = resolved.checkpoints.translation
    if not text:
        return
    window = window_of(model)
    length = len(text_ids(_tokenizer(model.path), text))
    if length > window / 2:
        raise ContextError(
            f"the accepted translation is {length} tokens long for translation model {model.path}, "
            f"more than half of its window ({window}): send only the open sentence's translation, "
            "or raise models.translation.engine.max_model_len"
        )


@lru_cache(maxsize=1)
def _tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path)
