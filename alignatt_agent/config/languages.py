"""Languages by code or by name, as Simulstream clients spell them."""

from __future__ import annotations

from dataclasses import dataclass

from alignatt_agent.types import AlignAttError


class LanguageError(AlignAttError, ValueError):
    """A language is unknown; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the cascade.

    Attributes:
        code: ISO 639-1 code, e.g. ``"de"``.
        name: English name as the prompts spell it, e.g. ``"German"``.
        spaced: whether words are separated by white space; if not, the stability and latency
            unit is the character.
    """

    code: str
    name: str
    spaced: bool = True

    @property
    def latency_unit(self) -> str:
        """Simulstream's and OmniSTEval's unit for this language: ``"word"`` or ``"char"``."""
        return "word" if self.spaced else "char"


_LANGUAGES = (
    Language("cs", "Czech"),
    Language("de", "German"),
    Language("en", "English"),
    Language("es", "Spanish"),
    Language("fr", "French"),
    Language("it", "Italian"),
    Language("ja", "Japanese", spaced=False),
    Language("ko", "Korean"),
    Language("nl", "Dutch"),
    Language("pl", "Polish"),
    Language("pt", "Portuguese"),
    Language("ru", "Russian"),
    Language("zh", "Chinese", spaced=False),
)

_ALIASES = {
    "simplified chinese": "zh",
    "chinese (simplified)": "zh",
    "mandarin": "zh",
    "mandarin chinese": "zh",
    "zh-cn": "zh",
    "zh-hans": "zh",
    "cmn": "zh",
}

_BY_NAME = {key: item for item in _LANGUAGES for key in (item.code, item.name.lower())}


def language(name: str) -> Language:
    """Find a language by code or name, in any letter case.

    Args:
        name: e.g. ``"de"``, ``"German"``, ``"zh"`` or ``"Simplified Chinese"``; a region such as
            in ``"de-DE"`` is accepted and ignored.

    Raises:
        LanguageError: the language is not known here.
    """
    key = str(name).strip().lower().replace("_", "-")
    key = _ALIASES.get(key, key)
    found = _BY_NAME.get(key) or _BY_NAME.get(key.partition("-")[0])
    if found is None:
        known = ", ".join(f"{item.code} ({item.name})" for item in _LANGUAGES)
        raise LanguageError(f"unknown language {name!r}; known are {known}")
    return found
