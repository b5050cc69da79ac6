"""What the translation model reads around the source."""

from __future__ import annotations

import hashlib
import json

from pydantic import Field, field_validator, model_validator

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
    """

    system: str | None = SYSTEM
    before: str = ""
    after: str = INSTRUCTION
    names: dict[str, str] = Field(default_factory=dict)
    chat: bool = True

    @field_validator("system", "before", "after")
    @classmethod
    def _fillable(cls, value: str | None) -> str | None:
        try:
            (value or "").format(**_PLACEHOLDERS)
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise ValueError(f"cannot be filled in: {error}; known are {known}") from None
        return value

    @field_validator("names")
    @classmethod
    def _codes(cls, value: dict[str, str]) -> dict[str, str]:
        return {language(code).code: name for code, name in value.items()}

    @model_validator(mode="after")
    def _bare_text_has_no_turns(self) -> PromptWording:
        if not self.chat and self.system is not None:
            raise ValueError("bare text (chat: false) has no system turn: set system to null")
        return self

    def name(self, spoken: str) -> str:
        """Return what a language is called here.

        Args:
            spoken: its English name or code.
        """
        found = language(spoken)
        return self.names.get(found.code, found.name)


class PromptConfig(PromptWording):
    """The wording of every direction.

    Attributes:
        context: what ``{context}`` becomes where there are names and terms, with ``{terms}``.
        languages: another wording where a language is spoken or written, by its code, as the
            authors of some models give one; the target's goes first.
    """

    context: str = " Names and terms of the talk: {terms}."
    languages: dict[str, PromptWording] = Field(default_factory=dict)

    @field_validator("languages")
    @classmethod
    def _known(cls, value: dict[str, PromptWording]) -> dict[str, PromptWording]:
        return {language(code).code: wording for code, wording in value.items()}

    def wording(self, source: str, target: str) -> PromptWording:
        """Return the wording of a direction, by its codes."""
        return self.languages.get(target) or self.languages.get(source) or self

    def digest(self, source: str, target: str) -> str:
        """Hash of what a model reads in a direction, 12 hexadecimal digits."""
        wording = self.wording(source, target)
        content = [wording.system, wording.before, wording.after]
        if wording.names:
            content += [wording.names.get(source), wording.names.get(target)]
        if not wording.chat:
            content += ["bare text"]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
