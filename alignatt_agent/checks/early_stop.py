"""What stopping a draft at the frontier saves, and that it changes no emission.

Every talk of a dev set is translated twice on the same engines, with whole drafts and with drafts
that end inside the engine where the gate closes. The speech side is heard once. Where several
drafts have to agree, each token is drafted as often and drafts go on past the gate; the gate on
single drafts is then measured, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from simulstream.client.wav_reader_client import read_wav_file
from tqdm import tqdm

from alignatt_agent.cascade import Engines, build_session, load_engines, shutdown
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.checkpoints import locate
from alignatt_agent.config.languages import language
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resolved import resolve
from alignatt_agent.curves.engine_cache import RememberedAligner, RememberedRecognizer
from alignatt_agent.evaluation.cache import Memo
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.types import SAMPLE_RATE, FloatArray

BAR = 2.0
"""Most decoding steps that an emitted token may cost where single drafts decide."""


@dataclasses.dataclass(frozen=True)
class Streamed:
    """Emissions of each chunk of each talk, and what they cost."""

    units: list[tuple[str, ...]]
    steps: int
    tokens: int


def stream(config: AgentConfig, engines: Engines, target: str, talks: list[FloatArray]) -> Streamed:
    """Translate ``talks``, ``[samples]`` each."""
    units: list[tuple[str, ...]] = []
    steps = tokens = 0
    size = SAMPLE_RATE * config.chunk_ms // 1000
    for audio in talks:
        source = language(config.source_language)
        session = build_session(resolve(config), engines, source, language(target))
        units += [session.step(audio[i : i + size]).units for i in range(0, len(audio), size)]
        units.append(session.finish().units)
        steps += session.translator.steps
        tokens += session.translator.emitted
    return Streamed(units, steps, tokens)


def compare(names: list[str], targets: list[str], devset: Path) -> Iterator[dict[str, Any]]:
    """Yield one row for each configuration and target; all share the same engines.

    Raises:
        ConfigError: a configuration is not valid, or they name different models.
    """
    configs = [load_config(name) for name in names]
    if any(config.models != configs[0].models for config in configs):
        raise ConfigError(f"{', '.join(names)} name different models; compare them one by one")
    talks = [
        read_wav_file(str(talk.wav))[1].astype(np.float32) / 2**15
        for talk in load_devset(devset, targets).talks
    ]
    heads = {head for config in configs for head in resolve(config).heads}
    engines = load_engines(locate(configs[0].models), sorted(heads))
    with tempfile.TemporaryDirectory() as folder:
        memo = Memo(Path(folder, "heard.sqlite"))
        heard = dataclasses.replace(
            engines,
            asr=RememberedRecognizer(engines.asr, memo, "asr"),
            aligner=RememberedAligner(engines.aligner, memo, "aligner"),
        )
        yield from _compare(dict(zip(names, configs, strict=True)), targets, heard, talks)
        memo.close()


def _compare(
    configs: dict[str, AgentConfig], targets: list[str], engines: Engines, talks: list[FloatArray]
) -> Iterator[dict[str, Any]]:
    runs = [
        (name, target, n) for name in configs for target in targets for n in _drafts(configs[name])
    ]
    for name, target, n in tqdm(runs, unit="run", desc="early stop"):
        policy = configs[name].policy.model_copy(update={"n": n})
        whole, early = (
            stream(
                configs[name].model_copy(update={"early_stop": on, "policy": policy}),
                engines,
                target,
                talks,
            )
            for on in (False, True)
        )
        yield {
            "config": name,
            "target": target,
            "drafts_that_agree": n,
            "chunks": len(whole.units),
            "identical": whole.units == early.units,
            "tokens": early.tokens,
            "steps_per_token_whole": whole.steps / max(1, whole.tokens),
            "steps_per_token_early": early.steps / max(1, early.tokens),
        }


def _drafts(config: AgentConfig) -> tuple[int, ...]:
    n = config.policy.n
    return (n, 1) if config.policy.name == "alignatt" and n > 1 else (n,)


def main() -> int:
    """Run the command line; 0 when emissions are identical and every bar is met."""
    parser = argparse.ArgumentParser(
        prog="python -m alignatt_agent.checks.early_stop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", nargs="+", default=["micro-low", "micro-high"], help="configurations to compare"
    )
    parser.add_argument("--target", nargs="+", default=["de", "it", "zh"], help="target languages")
    parser.add_argument("--devset", type=Path, default=Path("micro_models/devset"))
    parser.add_argument("--output", type=Path, default=Path("outputs/bench"))
    arguments = parser.parse_args()
    quieten()
    try:
        rows = list(compare(arguments.config, arguments.target, arguments.devset))
    finally:
        shutdown()
    print("configuration  target drafts chunks identical  steps per token: whole   early")
    for row in rows:
        single = row["drafts_that_agree"] <= 1
        print(
            f"{row['config']:14} {row['target']:6} {row['drafts_that_agree']:6} {row['chunks']:6} "
            f"{row['identical']!s:9} {row['steps_per_token_whole']:23.2f} "
            f"{row['steps_per_token_early']:7.2f}{f' (<= {BAR})' if single else ''}"
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "early_stop.json"
    path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    good = all(
        row["identical"] and (row["drafts_that_agree"] > 1 or row["steps_per_token_early"] <= BAR)
        for row in rows
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
