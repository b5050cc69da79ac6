"""The speech side, and the names and terms that it is told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from alignatt_agent.config.errors import Strict
from alignatt_agent.config.resources import find_path

CONTEXTS = "contexts"
"""Folder of a dev set with what is known of its talks, ``TALK.txt`` each."""


class SpeechConfig(Strict):
    """The speech side.

    Attributes:
        recognizer: family of ``models.asr``; ``gemma4-audio`` is the translation model's own audio
            tower, so ``models.asr`` names the same checkpoint, and one engine serves both.
        context: names and terms that the talk may hold, for the recogniser's system turn: a list,
            the path of a text file, or the path of a folder with ``TALK.txt`` for every talk
            (then also a mapping of talks to lists). Files are read at once, so that a resolved
            configuration is complete. Not given, an evaluation takes the dev set's ``contexts``.
        min_start_s: audio that must have arrived before anything is translated.
        hold_back_ms: a word becomes accessible this long after its end; more waits longer and
            reads a more reliable transcript.
        stable_only: only words that two successive hypotheses agree on are accessible.
        commit: when a sentence of the live tail is closed. ``agreed``: two successive hypotheses
            agree on its end (the paper's rule); ``ended``: its words are also over and held back,
            and the next sentence has begun or the speaker pauses; an end that stands at the same
            time needs no agreement on the words before it, and a long pause ends any sentence.
        align: when words are timed: ``whole``, with every hypothesis; ``changed``, with those that
            say something new.
        max_tail_s: longest audio that is transcribed again; a longer tail commits its stable
            prefix at a word boundary.
    """

    renamed: ClassVar[dict[str, str]] = {
        "verify": "debug.verify_transcripts",
        "ahead": "debug.draft_ahead",
    }
    recognizer: Literal["qwen3-asr", "whisper", "gemma4-audio"] = "qwen3-asr"
    context: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    min_start_s: float = Field(default=2.0, ge=0)
    hold_back_ms: float = Field(default=0.0, ge=0)
    stable_only: bool = False
    commit: Literal["agreed", "ended"] = "ended"
    align: Literal["whole", "changed"] = "whole"
    max_tail_s: float = Field(default=30.0, ge=5)

    @field_validator("recognizer", mode="before")
    @classmethod
    def _one_request_per_chunk(cls, value: Any) -> Any:
        if value == "voxtral-realtime":
            raise ValueError(
                "voxtral-realtime consumes a stream of frames in one request that stays open; here "
                "every chunk is a request of its own, which transcribes the live tail again"
            )
        return value

    @field_validator("context", mode="before")
    @classmethod
    def _lists_of_terms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return read_context(value)
        lists = value.values() if isinstance(value, dict) else [] if value is None else [value]
        for terms in lists:
            if not isinstance(terms, list | tuple) or not all(
                isinstance(term, str) and term.strip() for term in terms
            ):
                raise ValueError(
                    "expected a list of names and terms, or the path of a file or folder with them"
                )
        return value

    def context_of(self, talk: str = "") -> str:
        """Return the names and terms of a talk, one in a line; of any talk where all are equal."""
        terms = self.context.get(talk, ()) if isinstance(self.context, dict) else self.context
        return "\n".join(terms or ())

    @property
    def contexts(self) -> dict[str, str]:
        """Every context that a stream may get, by its talk; ``""`` where all talks are equal."""
        talks = self.context if isinstance(self.context, dict) else [""]
        return {talk: text for talk in talks if (text := self.context_of(talk))}


def read_context(path: str | Path) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Read a text file, or every ``TALK.txt`` of a folder.

    Args:
        path: relative ones are looked up in the working directory and in the checkout.

    Returns:
        Lines that are not blank; of a folder by talk.

    Raises:
        ValueError: there is no such file, it is not UTF-8 text, or the folder holds none.
    """
    try:
        found = find_path(path)
    except FileNotFoundError as error:
        raise ValueError(
            f"expected a list of names and terms, or a file or folder that holds them: {error}"
        ) from None
    if not found.is_dir():
        return _lines(found)
    texts = {file.stem: _lines(file) for file in sorted(found.glob("*.txt"))}
    if not texts:
        raise ValueError(f"{found} holds no TALK.txt with names and terms of a talk")
    return texts


def _lines(file: Path) -> tuple[str, ...]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text ({error})") from None
    return tuple(line.strip() for line in text.splitlines() if line.strip())
