"""What early stop saves: whole drafts against drafts that end inside the engine at the gate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tqdm import tqdm

from alignatt_agent.cascade.loading import Engines, load_engines, shutdown
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.agent_config import ConfigError, DebugConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved, resolve
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import FloatArray, SpeechUpdate

HEADS = (
    "config", "target", "drafts", "chunks", "identical", "tokens",
    "steps a transcript", "verified", "steps a token", "early", "verified",
    "ms a token", "early", "verified",
)  # fmt: skip

MOST_STEPS = 2.0
"""Most decoding steps that an emitted token may cost where single drafts decide."""

WAYS = {
    "whole": DebugConfig(early_stop=False, verify_drafts=False),
    "early": DebugConfig(early_stop=True, verify_drafts=False),
    "verified": DebugConfig(early_stop=True, verify_drafts=True),
}


@contextmanager
def opened(
    names: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[dict[str, Resolved], Engines]]:
    """Start the engines that all configurations share, and end them."""
    found = {name: resolve(load_config(name), targets) for name in names}
    first = found[names[0]]
    if any(item.config.models != first.config.models for item in found.values()):
        raise ConfigError(f"{', '.join(names)} name different models; measure them one by one")
    heads = {head for item in found.values() for head in item.heads}
    try:
        yield found, load_engines(first.checkpoints, sorted(heads), first.config.speech.recognizer)
    finally:
        shutdown()


def compared(
    configs: Mapping[str, Resolved],
    engines: Engines,
    targets: Sequence[str],
    listed: Sequence[FloatArray],
) -> Iterator[dict[str, Any]]:
    """Translate talks, ``[samples]`` each: whole drafts, early stop, and verified drafts."""
    # Where several drafts have to agree, each token is drafted as often and drafts go on past the
    # gate; the gate on single drafts is then measured, too.
    for name, resolved in configs.items():
        plain, heard = (_hear(resolved, engines, listed, verify) for verify in (False, True))
        policy = resolved.config.policy
        policies = {policy.drafts: policy, 1: policy.alone()}
        runs = [(target, n) for target in targets for n in policies]
        for target, n in tqdm(runs, desc=f"{name}: early stop"):
            ways = {}
            for way, debug in WAYS.items():
                changed = {"debug": debug, "policy": policies[n], "targets": {}}
                config = resolved.config.model_copy(update=changed)
                stream = replace(resolved, config=config), engines, target
                ways[way] = _translate(*stream, heard.updates)
            whole, tokens = ways["whole"], {way: max(1, x.tokens) for way, x in ways.items()}
            same = all(found.units == whole.units for found in ways.values())
            steps = {f"steps_per_token_{way}": x.steps / tokens[way] for way, x in ways.items()}
            ms = {f"ms_per_token_{way}": 1000 * x.seconds / tokens[way] for way, x in ways.items()}
            yield {
                "config": name,
                "target": target,
                "drafts_that_agree": n,
                "chunks": len(whole.units),
                "identical": same and plain.updates == heard.updates,
                "tokens": whole.tokens,
                "steps_per_transcript": plain.steps / max(1, plain.count),
                "steps_per_transcript_verified": heard.steps / max(1, heard.count),
                **steps,
                **ms,
            }


def saves(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every emission is the same, and single drafts cost ``MOST_STEPS`` at most."""
    return all(
        row["identical"]
        and (row["drafts_that_agree"] > 1 or row["steps_per_token_early"] <= MOST_STEPS)
        for row in rows
    )


@dataclass
class _Heard:
    """What each chunk of each talk gave on the speech side, and what it cost."""

    updates: list[list[SpeechUpdate]] = field(default_factory=list)
    count: int = 0
    steps: int = 0


def _hear(
    resolved: Resolved, engines: Engines, listed: Sequence[FloatArray], verify: bool
) -> _Heard:
    config, found = resolved.config, _Heard()
    source = language(config.source_language).code
    for audio in tqdm(listed, desc="hear, verified" if verify else "hear"):
        tail = LiveTail(engines.asr, engines.aligner, source, config.speech, verify=verify)
        updates = [*map(tail.push, chunks(resolved, audio)), tail.finish()]
        found.updates.append(updates)
        found.count += sum(update.transcripts.count for update in updates)
        found.steps += sum(update.transcripts.steps for update in updates)
    return found


@dataclass
class _Translated:
    """Emissions of each chunk of each talk, and what they cost."""

    units: list[tuple[str, ...]] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


def _translate(
    resolved: Resolved, engines: Engines, target: str, heard: Sequence[Sequence[SpeechUpdate]]
) -> _Translated:
    source, found = language(resolved.config.source_language), _Translated()
    for talk in heard:
        stream = open_stream(resolved, engines, source, [language(target)])
        translator = stream.targets[target].translator
        start = time.perf_counter()
        for update in talk:
            closed = [translator.complete(sentence).units for sentence in update.sentences]
            found.units.append(sum([*closed, translator.update(update.live).units], ()))
        found.seconds += time.perf_counter() - start
        found.steps += translator.steps
        found.tokens += translator.emitted
    return found
