"""Sections of the configuration: checkpoints with their engines, speech, and the prompt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

from pydantic import Field, ValidationInfo, field_validator, model_validator

from alignatt_agent.config.errors import Strict
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path, read_lines

SHARE = "gpu_memory_utilization"
"""vLLM's argument for the share of a GPU's memory that an engine claims."""

AUTO = "auto"
"""Argument of an engine that is chosen on this machine."""

DEFAULT_SHARE = 0.92
"""vLLM's own, where a configuration names none."""

CONTEXTS = "contexts"
"""Folder of a dev set with the names and terms of its talks, ``TALK.txt`` each."""

SYSTEM = (
    "You are a simultaneous interpreter. Translate the talk from {source_language} into "
    "{target_language}. Output only the translation.{context}"
)
INSTRUCTION = "\n\nTranslate into {target_language}."

_PLACEHOLDERS = {"source_language": "", "target_language": "", "context": ""}


class ModelConfig(Strict):
    """One checkpoint and how its engine runs.

    Attributes:
        path: id on the Hugging Face hub, or a directory (relative ones are looked up in the
            working directory and in the checkout).
        revision: commit of a hub id; pin it.
        smaller: checkpoint (``ID`` or ``ID@REVISION``) in place of ``models.asr`` where that one
            does not fit on a GPU whose memory is planned (``gpu_memory_utilization: auto``).
        dtype: computation type of the engine; ``float16`` for GPUs older than Ampere.
        runtime: ``vllm``, or ``ctranslate2`` for a Whisper in its format, on a CPU.
        quantize: ``int8``: `alignatt fetch` converts the checkpoint to 8-bit weights and
            activations, the fastest form on a CPU (docs/results/real.md).
        gguf: file of the checkpoint to convert, where it is in this format.
        engine: further arguments of the runtime: vLLM's ``EngineArgs``, or those of
            ``ctranslate2.models.Whisper``.
    """

    path: str = Field(min_length=1)
    revision: str | None = None
    smaller: str | None = Field(default=None, exclude_if=lambda value: value is None)
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "auto"
    runtime: Literal["vllm", "ctranslate2"] = Field(
        "vllm", exclude_if=lambda value: value == "vllm"
    )
    quantize: Literal["int8"] | None = Field(None, exclude_if=lambda value: value is None)
    gguf: str | None = Field(None, exclude_if=lambda value: value is None)
    engine: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _gguf_is_converted(self) -> ModelConfig:
        if self.gguf is not None and self.quantize is None:
            raise ValueError("vLLM reads no GGUF file on a CPU: set quantize to int8")
        return self

    def sizes(self) -> list[ModelConfig]:
        """Return this checkpoint, and the smaller one if there is one."""
        alone = self.model_copy(update={"smaller": None})
        if self.smaller is None:
            return [alone]
        path, _, revision = self.smaller.partition("@")
        return [alone, alone.model_copy(update={"path": path, "revision": revision or None})]


class ModelsConfig(Strict):
    """The checkpoints of the cascade; without an aligner, see ``SpeechConfig.times``."""

    asr: ModelConfig
    aligner: ModelConfig | None = None
    translation: ModelConfig

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that have a model."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def asr_is_translation(self) -> bool:
        """Whether the translation model transcribes with its audio tower, in the same engine."""
        asr, translation = self.asr, self.translation
        return (asr.path, asr.revision) == (translation.path, translation.revision)

    @property
    def engine_roles(self) -> tuple[str, ...]:
        """The roles that have an engine of vLLM of their own."""
        shared = self.asr_is_translation or self.asr.runtime != "vllm"
        return self.roles[1:] if shared else self.roles


def written_shares(models: ModelsConfig) -> dict[str, float]:
    """Return the share of GPU memory of every role with an engine whose share is not ``auto``."""
    engines = {role: getattr(models, role).engine for role in models.engine_roles}
    shares = {role: engine.get(SHARE, DEFAULT_SHARE) for role, engine in engines.items()}
    return {role: float(share) for role, share in shares.items() if share != AUTO}


class SpeechConfig(Strict):
    """The speech side.

    Attributes:
        recognizer: family of ``models.asr``; ``gemma4-audio`` is the translation model's own audio
            tower, so ``models.asr`` names the same checkpoint, and one engine serves both.
        context: names and terms of the talk, for the recognizer's system turn, some with a
            translation (see ``config.terms``): a list, the path of a text file, or the path of a
            folder with ``TALK.txt`` for every talk (then also a mapping of talks to lists). Files
            are read at once, so that a resolved configuration is complete. Without it an evaluation
            takes the dev set's ``contexts``.
        min_start_s: audio that must have arrived before anything is translated.
        hold_back_ms: a word becomes accessible this long after its end; more waits longer and
            reads a more reliable transcript.
        stable_only: only words that two successive hypotheses agree on are accessible.
        times: where word times come from. ``aligner``, or the recognizer itself where its runtime
            is ``ctranslate2``; ``first_heard``: a word is over once another one follows it, and
            begins and ends about then. Where the aligner does not know the language, it is always
            the latter; then no aligner is loaded.
        commit: when a sentence of the live tail is committed. ``agreed``: two successive
            hypotheses agree on its end (the paper's rule); ``ended``: its words are also over and
            held back, and the next sentence has begun or the speaker pauses; an end that stands at
            the same time needs no agreement on the words before it, and a long pause ends any
            sentence.
        max_tail_s: longest audio that is transcribed again; a longer tail commits its stable
            prefix at a word boundary.
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
        if isinstance(value, str):
            return _read_context(value)
        lists = value.values() if isinstance(value, dict) else [] if value is None else [value]
        for terms in lists:
            if not isinstance(terms, list | tuple) or not all(
                isinstance(term, str) and term.strip() for term in terms
            ):
                raise ValueError(
                    "expected a list of names and terms, those with a colon in quotes, or the path "
                    "of a file or folder with them"
                )
        return value

    def context_of(self, talk: str = "") -> str:
        """Return the names and terms of a talk, one in a line; of any talk where all are equal."""
        name, given = normalize("NFC", talk), self.context  # macOS takes accents apart
        terms = given.get(name, ()) if isinstance(given, dict) else given
        return "\n".join(terms or ())

    @property
    def contexts(self) -> dict[str, str]:
        """Every context that a stream may get, by its talk; ``""`` where all talks are equal."""
        talks = self.context if isinstance(self.context, dict) else [""]
        return {talk: text for talk in talks if (text := self.context_of(talk))}


def _read_context(path: str) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Read the lines of a text file that are not blank, or every ``TALK.txt`` of a folder."""
    try:
        found = find_path(path)
    except FileNotFoundError as error:
        raise ValueError(
            f"expected a list of names and terms, or a file or folder that holds them: {error}"
        ) from None
    if not found.is_dir():
        return _lines(found)
    texts = {normalize("NFC", file.stem): _lines(file) for file in sorted(found.glob("*.txt"))}
    if not texts:
        raise ValueError(f"{found} holds no TALK.txt with names and terms of a talk")
    return texts


def _lines(file: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in read_lines(file) if line.strip())


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
