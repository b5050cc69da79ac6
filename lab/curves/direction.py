"""A translation direction on loaded engines, for experiments without the agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.policy import Policy
from alignatt_agent.translation.drafter import Drafter
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types.engines import Readout, TranslationEngine
from alignatt_agent.types.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class Direction:
    """A translation direction on a loaded engine."""

    engine: TranslationEngine
    builder: PromptBuilder
    tokenizer: Any
    readout: Readout
    target: Language
    max_draft_tokens: int

    @classmethod
    def of(cls, resolved: Resolved, engines: Engines, target: str) -> Direction:
        """Return the direction of a configuration into the language with the code ``target``."""
        config = resolved.config
        source_language = language(config.source_language)
        target_language = language(target)
        builder = PromptBuilder.of(
            engines.tokenizer, config.prompt, source_language, target_language
        )
        return cls(
            engine=engines.translation,
            builder=builder,
            tokenizer=engines.tokenizer,
            readout=resolved.readout(source_language, target_language),
            target=target_language,
            max_draft_tokens=config.max_draft_tokens,
        )

    def translator(self, policy: Policy) -> Translator:
        """Return a translator without early stop, because only whole drafts are shared."""
        readout = replace(self.readout, probabilities=policy.reads == "probabilities")
        return Translator(
            engine=self.engine,
            prompt_builder=self.builder,
            tokenizer=self.tokenizer,
            readout=readout,
            policy=policy,
            spaced=self.target.spaced,
            max_draft_tokens=self.max_draft_tokens,
            early_stop=False,
            history=History(self.builder),
        )

    def offline(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the token ids of the translation of a whole sentence."""
        drafter = Drafter(
            self.engine,
            self.builder,
            self.decoder,
            self.readout,
            self.max_draft_tokens,
            Stopwatch(),
            verify=True,
        )
        token_ids, _ = drafter.finish(self.builder.build, tuple(words), ())
        return token_ids

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return self.decoder.text(ids).strip()

    @property
    def decoder(self) -> UnitDecoder:
        """Return the decoder of token ids."""
        return UnitDecoder(self.tokenizer, self.target.spaced)
