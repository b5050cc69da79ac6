"""Configure speech recognition: the recognizer, the live tail, and names and terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

from pydantic import Field, field_validator

from alignatt_agent.config.errors import Strict
from alignatt_agent.config.resources import find_path, read_lines

CONTEXTS = "contexts"
"""Folder in a dev set for the names and terms of its talks, one ``TALK.txt`` per talk."""


class SpeechConfig(Strict):
    """Settings of speech recognition and of the live tail.

    Attributes:
        recognizer: model family of ``models.asr``. ``gemma4-audio`` is the audio tower of the
            translation model: ``models.asr`` is the same checkpoint, and one engine serves both.
        context: names and terms of the talk for the recognizer's system turn, optionally with
            translations (see ``config.terms``): a list, the path of a text file, the path of a
            folder with a ``TALK.txt`` for every talk, or a mapping from talks to lists. Files are
            read immediately, so that a resolved configuration is complete. If no context is set, an
            evaluation uses the ``contexts`` of the dev set.
        min_start_s: seconds of audio that must arrive before translation starts.
        hold_back_ms: delay between the end of a word and the time when the word becomes accessible;
            a longer delay makes the transcript more reliable.
        stable_only: whether a word is accessible only if two successive hypotheses contain it.
        times: source of word timestamps. ``aligner``: the forced aligner, or the recognizer itself
            if its runtime is ``ctranslate2``. ``first_heard``: a word ends when another word
            follows it, so timestamps are approximate. A language that the aligner does not support
            always uses ``first_heard``, without an aligner.
        commit: when a sentence of the live tail is committed. ``agreed``: two successive
            hypotheses agree on its end (the paper's rule). ``ended``: its last word is also
            accessible, and the next sentence has begun or the speaker pauses. If both hypotheses
            end the sentence at the same time, its words may differ. A long pause ends any sentence.
        max_tail_s: maximum length of audio that is transcribed again, in seconds; the stable
            prefix of a longer tail is committed at a word boundary.
    """

    recognizer: Literal["qwen3-asr", "whisper", "gemma4-audio"] = "qwen3-asr"
    context: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    min_start_s: float = Field(default=2.0, ge=0)
    hold_back_ms: float = Field(default=0.0, ge=0)
    stable_only: bool = False
    times: Literal["aligner", "first_heard"] = "aligner"
    commit: Literal["agreed", "ended"] = "ended"
    max_tail_s: float = Field(default=30.0, ge=5)

    @field_validator("context", mode="before")
    @classmethod
    def _lists_of_terms(cls, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return _read_context(value)
        if isinstance(value, dict):
            for terms in value.values():
                _check_terms(terms)
        else:
            _check_terms(value)
        return value

    def context_of(self, talk: str = "") -> str:
        """Return the names and terms of a talk, one per line."""
        terms = self.context
        if isinstance(terms, dict):
            # macOS decomposes accented letters in names of files.
            terms = terms.get(normalize("NFC", talk))
        return "\n".join(terms or ())

    @property
    def contexts(self) -> dict[str, str]:
        """Return every non-empty context by talk; the key is ``""`` if all talks share one."""
        talks = [""]
        if isinstance(self.context, dict):
            talks = list(self.context)
        texts: dict[str, str] = {}
        for talk in talks:
            text = self.context_of(talk)
            if text:
                texts[talk] = text
        return texts


def _check_terms(terms: Any) -> None:
    """Reject anything but a list of strings that are not blank."""
    is_list = isinstance(terms, list | tuple)
    if not is_list or not all(isinstance(term, str) and term.strip() for term in terms):
        # YAML reads ``- Term: note`` as a mapping.
        raise ValueError(
            "expected a list of names and terms (quote those with a colon), or the path "
            "of a file or folder that contains them"
        )


def _read_context(path: str) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Read the non-blank lines of a text file, or of every ``TALK.txt`` in a folder."""
    try:
        location = find_path(path)
    except FileNotFoundError as error:
        raise ValueError(
            f"expected a list of names and terms, or a file or folder that contains them: {error}"
        ) from None
    if not location.is_dir():
        return _read_terms(location)
    terms_by_talk: dict[str, tuple[str, ...]] = {}
    for file in sorted(location.glob("*.txt")):
        terms_by_talk[normalize("NFC", file.stem)] = _read_terms(file)
    if not terms_by_talk:
        raise ValueError(f"{location} contains no TALK.txt with names and terms of a talk")
    return terms_by_talk


def _read_terms(file: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in read_lines(file) if line.strip())
