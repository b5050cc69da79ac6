"""Find languages by code or name, as Simulstream clients spell them.

``languages.yaml`` lists the languages.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.types import AlignAttError


class LanguageError(AlignAttError, ValueError):
    """A language is unknown or not supported, or its word splitter is not installed."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the cascade.

    Attributes:
        code: ISO 639 code, e.g. ``"de"``, with a script if there are several: ``"zh-Hant"``.
        name: English name in the prompts and in Qwen3-ASR, e.g. ``"German"``.
        spaced: whether words are separated by white space; if not, the stability and latency
            unit is the character.
        heard: whether Qwen3-ASR was trained on the language.
        timed: whether Qwen3's forced aligner was trained on the language.
        rtl: whether the language is written from right to left.
        splitter: package that splits words for the aligner if white space does not separate them.
        sample: a sentence with the same meaning in every language (see ``sample_tokens``).
        also: other codes and names, in lower case.
    """

    code: str
    name: str
    spaced: bool = True
    heard: bool = True
    timed: bool = False
    rtl: bool = False
    splitter: str | None = None
    sample: str = field(default="", compare=False)
    also: Sequence[str] = field(default=(), compare=False)  # lists from YAML have no hash

    @property
    def latency_unit(self) -> str:
        """Return the latency unit in Simulstream and OmniSTEval: ``"word"`` or ``"char"``."""
        return "word" if self.spaced else "char"

    def check_spoken(self, aligned: bool = True, recognizer: str = "qwen3-asr") -> Language:
        """Return this language if it can be recognized and, if ``aligned``, also be aligned.

        Recognizers other than Qwen3-ASR check the language themselves.

        Raises:
            LanguageError: the language cannot be recognized, or its splitter is not installed.
        """
        if recognizer == "qwen3-asr" and not self.heard:
            raise LanguageError(
                f"{self.name} can be a target language, but it is not among the languages that "
                f"Qwen3-ASR recognizes: {_HEARD}"
            )
        if aligned and self.splitter is not None:
            try:
                # An optional package named in languages.yaml; imported now, because the import
                # would delay the first chunk.
                importlib.import_module(self.splitter)
            except ImportError as error:
                raise LanguageError(
                    f"{self.name} needs the word splitter {self.splitter}, which cannot be loaded "
                    f"({error}); install it with `pip install 'alignatt_agent[cjk]'`, or set "
                    "speech.times to first_heard"
                ) from None
        return self


_TABLE = Path(__file__).with_suffix(".yaml")


def _read_table() -> tuple[Language, ...]:
    table = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return tuple(Language(code, **fields) for code, fields in table.items())


def _index(languages: Sequence[Language]) -> dict[str, Language]:
    """Return every language by its code, its name and its other names, in lower case."""
    index: dict[str, Language] = {}
    for entry in languages:
        index[entry.code.lower()] = entry
        index[entry.name.lower()] = entry
        for alias in entry.also:
            index[alias] = entry
    return index


LANGUAGES = _read_table()
"""Languages that can be a source or a target."""

_HEARD = ", ".join(entry.name for entry in LANGUAGES if entry.heard)
_BY_NAME = _index(LANGUAGES)


def sample_tokens(tokenizer: Any, name: str) -> int:
    """Return the token count of a sample: 0.2 per letter in English, 0.9 in Greek and Hindi."""
    return len(tokenizer.encode(language(name).sample, add_special_tokens=False))


def language(name: str) -> Language:
    """Find a language by code or name, in any case; a region as in ``"de-DE"`` is ignored.

    Raises:
        LanguageError: the language is not in ``languages.yaml``.
    """
    key = str(name).strip().lower().replace("_", "-")
    while key:  # zh-Hant-TW: zh-hant-tw, zh-hant, zh
        if key in _BY_NAME:
            return _BY_NAME[key]
        key, _, _ = key.rpartition("-")
    expected = ", ".join(f"{entry.code} ({entry.name})" for entry in LANGUAGES)
    raise LanguageError(f"unknown language {str(name)[:40]!r}; expected one of {expected}")
