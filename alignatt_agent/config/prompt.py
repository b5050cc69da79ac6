"""What the translation model reads around the source."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from alignatt_agent.config.errors import Strict
from alignatt_agent.config.languages import language

SYSTEM = (
    "You are a simultaneous interpreter. Translate the talk from {source_language} into "
    "{target_language}. Output only the translation.{context}"
)

INSTRUCTION = "\n\nTranslate into {target_language}."

_PLACEHOLDERS = {"source_language": "", "target_language": "", "context": ""}


class PromptWording(Strict):
    """What the translation model reads around the source, in its own chat template.

    ``{source_language}`` and ``{target_language}`` stand for English names, ``{context}`` for the
    names and terms of the talk; a literal brace is doubled.

    Attributes:
        system: system turn; ``null`` for models whose template refuses one.
        before: beginning of the user turn, in front of the source.
        after: rest of the user turn, behind the source.
        names: what a language is called where that is not its English name, by its code.
        chat: whether the chat template writes the turn; ``false`` for models that were trained on
            bare text: then there is no system turn, and a token that begins texts has to be part
            of ``before``.
        language_codes: whether the template wants the source alone, with the codes of both
            languages, as TranslateGemma's.
        template_arguments: variables of the chat template, e.g. ``{thinking: false}`` or a fixed
            ``date_string``; ``enable_thinking`` is false where it is not given.
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
        known = {"terms": ""} if info.field_name in ("context", "terms") else _PLACEHOLDERS
        try:
            (value or "").format(**known)
        except (KeyError, IndexError, ValueError) as error:
            names = ", ".join(f"{{{name}}}" for name in known)
            raise ValueError(f"cannot be filled in: {error}; known are {names}") from None
        return value

    @field_validator("names", "languages", check_fields=False)
    @classmethod
    def _codes(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {language(code).code: item for code, item in value.items()}

    @model_validator(mode="after")
    def _bare_text_has_no_turns(self) -> PromptWording:
        if not self.chat and self.system is not None:
            raise ValueError("bare text (chat: false) has no system turn: set system to null")
        return self

    def name(self, spoken: str) -> str:
        """Return what a language, given by its English name or code, is called here."""
        found = language(spoken)
        return self.names.get(found.code, found.name)


class PromptConfig(PromptWording):
    """The wording of every direction.

    Attributes:
        context: what ``{context}`` becomes where there are names and terms, with ``{terms}``;
            those with a translation into the target are not among them.
        terms: what follows the source where it has terms with a translation, with ``{terms}``;
            empty for a model that would translate it.
        history: closed sentences that stand in front of the open one with their translations, as
            turns of the chat where its template allows that; the window grows to three times
            as many before it is cut, so that prompts are mostly continued (prefix cache).
        history_tokens: longest history; it is cut by whole sentences.
        languages: another wording where a language is spoken or written, by its code, as the
            authors of some models give one; the target's goes first.
    """

    context: str = " Names and terms of the talk: {terms}."
    terms: str = "\n\nUse these translations: {terms}."
    history: int = Field(default=0, ge=0)
    history_tokens: int = Field(default=512, ge=1)
    languages: dict[str, PromptWording] = Field(default_factory=dict)

    def wording(self, source: str, target: str) -> PromptWording:
        """Return the wording of a direction, by its codes."""
        return self.languages.get(target) or self.languages.get(source) or self

    def digest(self, source: str, target: str) -> str:
        """Hash of what a model reads in a direction, 12 hexadecimal digits."""
        wording = self.wording(source, target)
        turn = wording.model_dump(include=PromptWording.model_fields.keys() - {"names"})
        names = [wording.names.get(code) for code in (source, target)]
        content = json.dumps([turn, names, self.history], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]
