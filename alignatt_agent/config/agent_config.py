"""The agent's configuration: strict pydantic models, loaded from ``agent_configs/*.yaml``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.errors import ConfigError as ConfigError
from alignatt_agent.config.errors import Strict, explain_all
from alignatt_agent.config.head_sets import ANY
from alignatt_agent.config.languages import language
from alignatt_agent.config.models import ModelConfig as ModelConfig
from alignatt_agent.config.models import ModelsConfig as ModelsConfig
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.config.resources import find_resource
from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.config.yaml_text import parse_yaml, read_yaml
from alignatt_agent.policy import DEFAULT, AnyPolicy, Policy, changed, kept_keys
from alignatt_agent.types import SAMPLE_RATE


class TargetConfig(Strict):
    """Overrides for one target language; all targets share models, chunks and recognition.

    Attributes:
        policy: keys of the policy; another ``name`` keeps only the keys that all policies share.
    """

    policy: dict[str, Any] = Field(default_factory=dict)


class DebugConfig(Strict):
    """Optimizations that do not change the output; disabling them slows processing down.

    Attributes:
        early_stop: end a draft inside the engine at the first token that the gate rejects.
        verify_drafts: verify the previous draft on the new source in one pass and decode from the
            first difference.
        verify_transcripts: verify the previous transcript on the longer audio in the same way.
        draft_ahead: draft for the probable next source while new words are still being timed.
    """

    early_stop: bool = True
    verify_drafts: bool = True
    verify_transcripts: bool = True
    draft_ahead: bool = True


class AgentConfig(Strict):
    """The configuration that Simulstream passes to the agent.

    Attributes:
        type: dotted path of the agent class, for Simulstream.
        detokenizer_type: how scorers join the agent's units; ``simuleval`` needs no download.
        latency_unit: ``word`` or ``char``; derived from the target language if one is set.
        chunk_ms: length of audio per step, in milliseconds.
        source_language: code or name of the spoken language.
        target_language: code or name of the target language; a client's choice overrides it.
        max_draft_tokens: maximum length of a draft, in tokens.
        schedule: order of the stages. The only value, ``sync``, runs one after the other. The key
            remains because the digests of earlier runs contain it.
        models: checkpoints of the recognizer, the aligner and the translation model.
        head_sets: head set (name or path) by target language code; ``*`` applies to all other
            targets.
        prompt: text around the source in the prompt of the translation model.
        speech: settings of speech recognition and the live tail.
        policy: the AlignAtt gate or another policy.
        targets: overrides for individual target languages, by code.
        debug: optimizations that do not change the output.
    """

    type: str = "alignatt_agent.agent.AlignAttAgent"
    detokenizer_type: Literal["simuleval"] = "simuleval"
    latency_unit: Literal["word", "char"] = "word"
    chunk_ms: int = Field(default=850, ge=20)
    source_language: str = "en"
    target_language: str | None = None
    max_draft_tokens: int = Field(default=16, ge=1)
    schedule: Literal["sync"] = "sync"
    models: ModelsConfig
    head_sets: dict[str, str] = Field(default_factory=dict)
    prompt: PromptConfig = PromptConfig()
    speech: SpeechConfig = SpeechConfig()
    policy: AnyPolicy = DEFAULT
    targets: dict[str, TargetConfig] = Field(default_factory=dict)
    debug: DebugConfig = DebugConfig()

    @field_validator("chunk_ms")
    @classmethod
    def _representable(cls, value: int) -> int:
        # simulstream_inference cuts int(rate * seconds) samples. If the product is just below a
        # whole number (as for 2010 ms), every step would silently process two pieces.
        if int(SAMPLE_RATE * (value / 1000)) != SAMPLE_RATE * value // 1000:
            raise ValueError(f"Simulstream cannot cut chunks of {value} ms; try {value - 1}")
        return value

    @field_validator("source_language", "target_language")
    @classmethod
    def _language_code(cls, value: str | None) -> str | None:
        if value is None:
            return None
        return language(value).code

    @field_validator("head_sets", "targets")
    @classmethod
    def _language_codes(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        names_by_code: dict[str, list[str]] = {}
        for name in value:
            is_any = info.field_name == "head_sets" and name == ANY
            code = ANY if is_any else language(name).code
            names_by_code.setdefault(code, []).append(name)
        by_code: dict[str, Any] = {}
        for code, names in names_by_code.items():
            if len(names) > 1:
                same = ", ".join(sorted(names))
                raise ValueError(f"keys for the same language: {same}; keep one")
            by_code[code] = value[names[0]]
        return by_code

    @model_validator(mode="after")
    def _valid_policies(self) -> AgentConfig:
        for code in self.targets:
            try:
                self.policy_for(code)
            except ValidationError as error:
                problems = "; ".join(explain_all(Policy, error))
                raise ValueError(f"targets.{code}.policy: {problems}") from None
        return self

    @model_validator(mode="after")
    def _no_aligner_where_it_times_nothing(self) -> AgentConfig:
        # Other runtimes than vLLM return word timestamps themselves.
        needs_aligner = (
            self.speech.times == "aligner"
            and language(self.source_language).timed
            and self.models.asr.runtime == "vllm"
        )
        if not needs_aligner:
            models = self.models.model_copy(update={"aligner": None})
            object.__setattr__(self, "models", models)  # the configuration is frozen
        elif self.models.aligner is None:
            raise ValueError(
                "models.aligner, which times the words, is missing: add it, or set speech.times "
                "to first_heard"
            )
        return self

    @model_validator(mode="after")
    def _one_checkpoint_where_one_model_transcribes(self) -> AgentConfig:
        if self.speech.recognizer == "gemma4-audio" and not self.models.asr_is_translation:
            raise ValueError(
                "speech.recognizer gemma4-audio is the audio tower of models.translation: set "
                f"models.asr to the same path ({self.models.translation.path}) and revision"
            )
        if self.models.asr.runtime != "vllm" and self.speech.recognizer != "whisper":
            raise ValueError("models.asr.runtime ctranslate2 needs speech.recognizer whisper")
        return self

    @classmethod
    def parse(cls, raw: Mapping[str, Any], origin: str = "configuration") -> AgentConfig:
        """Validate a mapping; a ``ConfigError`` lists all problems, one per line."""
        try:
            return cls.model_validate(dict(raw))
        except ValidationError as error:
            lines = [f"{origin}: invalid", *explain_all(cls, error)]
            raise ConfigError("\n  ".join(lines)) from None

    @classmethod
    def from_namespace(cls, namespace: SimpleNamespace) -> AgentConfig:
        """Validate the namespace that Simulstream creates from a YAML file."""
        return cls.parse(_to_dict(namespace))

    def for_target(self, target: str) -> AgentConfig:
        """Return the configuration for one target language, with its latency unit."""
        chosen = language(target)
        update = {"target_language": chosen.code, "latency_unit": chosen.latency_unit}
        return self.model_copy(update=update)

    def policy_for(self, target: str) -> Policy:
        """Return the policy for a target language, given by its code."""
        if target not in self.targets:
            return self.policy
        return changed(self.policy, self.targets[target].policy)

    def to_yaml(self) -> str:
        """Return the configuration as YAML, including every default."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)

    def digest(self) -> str:
        """Return a 12-digit hexadecimal hash of the configuration without the target."""
        # The latency unit follows from the target.
        content = self.model_dump(exclude={"target_language", "latency_unit"})
        text = json.dumps(content, sort_keys=True)
        return short_digest([text.encode()])


def load_config(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> AgentConfig:
    """Load ``agent_configs/NAME.yaml`` or the YAML file at a path.

    ``overrides`` maps dotted keys to values, e.g. ``{"policy.name": "none"}``.
    """
    try:
        path = find_resource("agent_configs", name_or_path, (".yaml", ".yml"))
        raw = read_yaml(path)
    except FileNotFoundError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} contains {type(raw).__name__}, expected a mapping of keys")
    remaining = dict(overrides or {})
    # A new policy drops the keys of the old one. Keys of the new one are therefore set later.
    if "policy.name" in remaining:
        set_key(raw, "policy.name", remaining.pop("policy.name"))
    for key, value in remaining.items():
        set_key(raw, key, value)
    return AgentConfig.parse(raw, name_or_path)


def parse_overrides(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` with dotted keys and YAML values."""
    parsed: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(
                f"--set: expected KEY=VALUE such as policy.name=none, got {assignment!r}"
            )
        parsed[key.strip()] = parse_yaml(value, f"--set {assignment}")
    return parsed


def set_key(raw: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key; a new policy keeps the keys that all policies share."""
    *parents, last = dotted.split(".")
    if dotted == "policy.name":
        _take_policy(raw, value)
    elif dotted == "policy" and isinstance(value, Mapping):
        _take_policy(raw, value.get("name", DEFAULT.name))
    for parent in parents:
        # ``targets.de.policy.name=none`` also works if the file has no targets.
        if raw.get(parent) is None:
            raw[parent] = {}
        raw = raw[parent]
        if not isinstance(raw, dict):
            raise ConfigError(f"--set {dotted}: {parent} is a single value, expected a mapping")
    raw[last] = value


def _take_policy(raw: dict[str, Any], name: str) -> None:
    """Change the policy's name in a file that is not validated yet; wrong values stay for this."""
    shared = raw.get("policy") or {}
    if not isinstance(shared, Mapping):
        return
    before = shared.get("name", DEFAULT.name)
    raw["policy"] = kept_keys(shared, name)
    targets = raw.get("targets")
    if before == name or not isinstance(targets, Mapping):
        return
    for target in targets.values():
        if not isinstance(target, dict):
            continue
        keys = target.get("policy") or {}
        # A target with a policy of its own does not follow the shared policy.
        if not isinstance(keys, Mapping) or "name" in keys:
            continue
        new_keys = kept_keys({"name": before, **keys}, name)
        new_keys.pop("name", None)
        target["policy"] = new_keys


def _to_dict(value: Any) -> Any:
    if isinstance(value, SimpleNamespace):
        return {key: _to_dict(entry) for key, entry in vars(value).items()}
    if isinstance(value, list):
        return [_to_dict(entry) for entry in value]
    return value
