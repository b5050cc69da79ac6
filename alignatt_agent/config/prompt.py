"""Configure the wording of the translation prompt around the source."""

from __future__ import annotations

import json
from string import Formatter
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.errors import Strict
from alignatt_agent.config.languages import language

SYSTEM = (
    "You are a simultaneous interpreter. Translate the talk from {source_language} into "
    "{target_language}. Output only the translation.{context}"
)

INSTRUCTION = "\n\nTranslate into {target_language}."

_PLACEHOLDERS: tuple[str, ...] = ("source_language", "target_language", "context")
"""Placeholders of the wording around a source."""

_TERMS_PLACEHOLDERS = ("terms",)
"""Placeholders of the texts that list names and terms."""


class PromptWording(Strict):
    """Wording of the prompt around the source, in the model's chat template.

    ``{source_language}`` and ``{target_language}`` stand for language names, and ``{context}``
    stands for the names and terms of the talk. Literal braces must be doubled.

    Attributes:
        system: system turn; ``null`` for models whose template rejects a system turn.
        before: text of the user turn before the source.
        after: text of the user turn after the source.
        names: language names in the prompt, by code, if they differ from the English names.
        chat: whether the chat template formats the turn; ``false`` for models that were trained on
            plain text. Without a chat template, there is no system turn, and ``before`` must
            contain the beginning-of-text token, if the model has one.
        language_codes: whether the template receives only the source and both language codes, as
            TranslateGemma requires.
        template_arguments: variables of the chat template, e.g. ``{thinking: false}`` or a fixed
            ``date_string``; ``enable_thinking`` defaults to false.
    """

    system: str | None = SYSTEM
    before: str = ""
    after: str = INSTRUCTION
    names: dict[str, str] = Field(default_factory=dict)
    chat: bool = True
    language_codes: bool = False
    template_arguments: dict[str, str | bool | int | float] = Field(default_factory=dict)

    @field_validator("system", "before", "after", "context", "terms", check_fields=False)
    @classmethod
    def _fillable(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        allowed = _PLACEHOLDERS
        if info.field_name in ("context", "terms"):
            allowed = _TERMS_PLACEHOLDERS
        try:
            for _, placeholder, form, _ in Formatter().parse(value):
                # str.format would also read attributes, such as {target_language.name}.
                if placeholder is not None and placeholder not in allowed:
                    raise ValueError(f"{{{placeholder}}} is no placeholder")
                # A format may itself contain fields: {context:{target_language.name}}.
                if form and "{" in form:
                    raise ValueError(f"{{{placeholder}:{form}}} is no placeholder")
            # Filling the text in also detects wrong conversions and formats: {context!x}.
            value.format(**dict.fromkeys(allowed, ""))
        except (KeyError, IndexError, ValueError) as error:
            names = ", ".join(f"{{{name}}}" for name in allowed)
            raise ValueError(f"cannot be filled in: {error}; expected one of {names}") from None
        return value

    @field_validator("names", "languages", check_fields=False)
    @classmethod
    def _codes(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {language(name).code: entry for name, entry in value.items()}

    @model_validator(mode="after")
    def _bare_text_has_no_turns(self) -> PromptWording:
        if not self.chat and self.system is not None:
            raise ValueError("plain text (chat: false) has no system turn: set system to null")
        return self

    def name(self, spoken: str) -> str:
        """Return a language's name in the prompt; ``spoken`` is its English name or code."""
        named = language(spoken)
        return self.names.get(named.code, named.name)


class PromptConfig(PromptWording):
    """The prompt wording for all language directions.

    Attributes:
        context: text for ``{context}`` if there are names and terms, which fill ``{terms}``; terms
            with a translation into the target are excluded.
        terms: text after a source that contains terms with translations, which fill ``{terms}``;
            empty for a model that would translate this text.
        history: number of closed sentences, with translations, before the open sentence, as chat
            turns if the template allows them. The history grows to three times this number before
            it is cut, so that most prompts extend the previous prompt (prefix cache).
        history_tokens: maximum length of the history, in tokens; only whole sentences are cut.
        languages: different wording for a spoken or target language, by code, as the authors of
            some models recommend; the wording of the target takes precedence.
    """

    context: str = " Names and terms of the talk: {terms}."
    terms: str = "\n\nUse these translations: {terms}."
    history: int = Field(default=0, ge=0)
    history_tokens: int = Field(default=512, ge=1)
    languages: dict[str, PromptWording] = Field(default_factory=dict)

    def wording(self, source: str, target: str) -> PromptWording:
        """Return the wording for a direction, given by two language codes."""
        return self.languages.get(target) or self.languages.get(source) or self

    def digest(self, source: str, target: str) -> str:
        """Return a 12-digit hexadecimal hash of the prompt's wording for a direction."""
        wording = self.wording(source, target)
        # Without names of other languages and without texts for terms: most prompts have neither.
        turn = wording.model_dump(include=PromptWording.model_fields.keys() - {"names"})
        names = [wording.names.get(source), wording.names.get(target)]
        content = json.dumps([turn, names, self.history], sort_keys=True)
        return short_digest([content.encode()])
