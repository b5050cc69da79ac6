"""Locate and check the head sets and checkpoints of a configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.checkpoints import identity, locate
from alignatt_agent.config.head_set_choice import fitting_head_set, head_set_for
from alignatt_agent.config.head_sets import ANY, HeadSet
from alignatt_agent.config.languages import LANGUAGES, Language, language
from alignatt_agent.types.engines import Readout


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration that is ready to run (see ``resolve``).

    Attributes:
        config: the configuration.
        head_sets: head sets by target language code; a set for any target is listed for every code
            that uses it.
        checkpoints: the models with the local directories of their weights.
    """

    config: AgentConfig
    head_sets: Mapping[str, HeadSet]
    checkpoints: ModelsConfig

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """All ``(layer, head)`` pairs that drafts into any target read, sorted."""
        heads: set[tuple[int, int]] = set()
        for code, head_set in self.head_sets.items():
            heads.update(head_set.top(self.config.policy_for(code).top_k))
        return tuple(sorted(heads))

    def readout(self, source: Language, target: Language) -> Readout:
        """Return the readout for a direction; raise ``HeadSetError`` if it has no head set."""
        head_set = fitting_head_set(
            self.config, self.head_sets.get(target.code), source, target.code
        )
        return readout_for(self.config, head_set, target)

    def aligned(self, source: Language) -> bool:
        """Return whether the aligner or the recognizer provides word timestamps for a language."""
        models = self.config.models
        if models.asr.runtime == "ctranslate2":
            return self.config.speech.times == "aligner"
        return source.timed and models.aligner is not None

    def check_shape(self, num_layers: int, num_heads: int) -> None:
        """Reject head sets that were calibrated on a model of another shape."""
        model = self.config.models.translation
        # The directions were checked when the sets were loaded, before any model.
        for head_set in self.head_sets.values():
            head_set.check(model.path, num_layers, num_heads, head_set.direction, model.revision)

    def other_prompts(self) -> list[str]:
        """Return warnings about head sets that were calibrated with another prompt."""
        config = self.config
        warnings: list[str] = []
        for target, head_set in self.head_sets.items():
            calibrated = head_set.prompt_sha256
            configured = config.prompt.digest(config.source_language, target)
            if calibrated not in (None, configured):
                warnings.append(
                    f"head set {head_set.name} was calibrated with another prompt ({calibrated}), "
                    f"not with the configuration's for {target} ({configured}): other heads may "
                    "follow the source; run `alignatt calibrate run --config`"
                )
        return warnings

    def identities(self) -> dict[str, str]:
        """Return the checkpoint of each role as ``id@revision`` or as a path with a fingerprint."""
        identities: dict[str, str] = {}
        for role in self.config.models.roles:
            configured = getattr(self.config.models, role)
            located = getattr(self.checkpoints, role)
            identities[role] = identity(configured, located)
        return identities


def resolve(config: AgentConfig, targets: Sequence[str] = (), live: bool = True) -> Resolved:
    """Load and check head sets, and find checkpoints, before a model is loaded.

    ``targets`` are additional target language codes; ``live`` means that speech arrives in chunks.

    Raises:
        LanguageError: the spoken language cannot be transcribed with this configuration.
        HeadSetError: a head set is missing or was calibrated for another model.
        CheckpointError: checkpoints are missing; the message names all of them.
    """
    aligned = live and config.models.aligner is not None
    source = language(config.source_language).check_spoken(aligned, config.speech.recognizer)
    head_sets: dict[str, HeadSet] = {}
    for code in _configured_targets(config, source):
        head_sets[code] = head_set_for(config, source, code)
    # Further targets need a head set, unless their policy reads only the tokens of a draft.
    further = list(targets)
    if config.target_language:
        further.append(config.target_language)
    for code in further:
        if code not in head_sets and config.policy_for(code).reads != "tokens":
            head_sets[code] = head_set_for(config, source, code)
    return Resolved(config, head_sets, locate(config.models))


def _configured_targets(config: AgentConfig, source: Language) -> list[str]:
    """Return the codes of all targets that have a head set."""
    codes = [code for code in config.head_sets if code != ANY]
    if ANY in config.head_sets:
        for target in LANGUAGES:
            if target != source and target.code not in codes:
                codes.append(target.code)
    return codes


def readout_for(config: AgentConfig, head_set: HeadSet, target: Language) -> Readout:
    """Return the readout for drafts into ``target``."""
    policy = config.policy_for(target.code)
    return Readout(
        heads=head_set.top(policy.top_k),
        row=head_set.row,
        probabilities=policy.reads == "probabilities",
    )
