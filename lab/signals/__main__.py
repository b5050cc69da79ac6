r"""Ask whether a classifier of all signals of drafted tokens would make a better policy.

A drafted token is wrong if the off-line translation of the recognized sentence has another token
at its place. Talks are streamed with a slow policy that accepts no wrong token, and the signals of
all drafted tokens are recorded: probability, agreement with earlier drafts, attention on the
accessible source, and others. Faster policies are simulated on these drafts. Classifiers are fitted
to all talks but one, combine the signals into the probability that a token is correct, and accept
tokens above a threshold. If this front of policies is not better than a simple rule, the signals
contain no more than the rule uses.

"wait" is the mean time for which a token is held back after the model has drafted it correctly.
"wrong" counts the decisions for a wrong token per 100 sentences. "minus" is the difference of the
classifier's front to the rule at equal wait. Many wrong tokens are translations that are as good.

Example:
    python -m lab.signals --devset DIR --output OUT --set chunk_ms=500

files in OUT
  cache.sqlite   results of the models, as in lab.curves; an interrupted command resumes
  signals.json   all figures

exit status: 0 success; 2 nothing was started
"""

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tqdm import tqdm

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import (
    AgentConfig,
    ConfigError,
    load_config,
    parse_overrides,
)
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.statistics import Array
from lab import commands
from lab.curves.cached_agent import CachedRuntime, EngineSetup
from lab.curves.oracle import translate
from lab.curves.pareto import estimate, estimate_json, resampling
from lab.curves.runs import side_by_side
from lab.signals.classifiers import CLASSIFIERS, THRESHOLDS, at_least, predicted
from lab.signals.records import Recording, Sentence
from lab.signals.simulation import (
    Outcome,
    Rule,
    agreement,
    both,
    excess,
    gate,
    simulate,
)

RULES: dict[str, Rule] = {
    "agreement of 2 drafts": agreement(2),
    "agreement of 3 drafts": agreement(3),
    "gate, margin -2": gate(-2),
    "gate, margin -4": gate(-4),
    "gate, margin -2, and 2 drafts (default-low)": both(gate(-2), agreement(2)),
    "gate, margin -3, and 3 drafts (default-high)": both(gate(-3), agreement(3)),
}

MEAN = "mean"
"""Name of the rows that average over all targets."""

Talks = list[list[Sentence]]

Columns = dict[str, Array]
"""Figures by name, each in every resample, ``[1 + RESAMPLES]``."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.signals", __doc__)
    shared_options(
        parser,
        "set",
        config={"default": "laptop-low"},
        target={"default": ["de", "it", "zh"]},
        devset={"required": True},
        output={"required": True},
    )
    text = "number of concurrent talks, which are batched; default %(default)s"
    parser.add_argument("--streams", type=int, default=24, metavar="N", help=text)
    return parser


def record(resolved: Resolved, engines: Engines, recording: Path, target: str) -> list[Sentence]:
    """Stream a talk; return the records of its sentences."""
    audio, _ = soundfile.read(recording, dtype="float32")
    policy = Recording()
    for _ in translate(resolved, engines, audio, target, policy):
        pass
    # After the last sentence, an empty one begins.
    sentences: list[Sentence] = policy.sentence.sentences
    return [sentence for sentence in sentences if sentence.steps and sentence.tokens]


def record_all(
    arguments: argparse.Namespace, config: AgentConfig, devset: DevSet
) -> dict[str, Talks]:
    """Stream all talks into all targets; return the records by target."""
    models = side_by_side(config.models, arguments.streams)
    config = config.model_copy(update={"models": models})
    runtime = CachedRuntime()
    resolved = runtime.resolve(config, arguments.target)
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        engines = runtime.open(
            EngineSetup(
                start=None,
                config=config,
                heads=tuple(sorted(resolved.heads)),
                cache=arguments.output / "cache.sqlite",
                shared=True,
            )
        )
        with ThreadPoolExecutor(arguments.streams, "stream") as pool:
            pairs = list(product(arguments.target, devset.talks))
            futures = [
                pool.submit(record, resolved, engines, talk.wav, target) for target, talk in pairs
            ]
            progress = tqdm(zip(pairs, futures, strict=True), total=len(pairs), unit="talk")
            talks_by_target: dict[str, Talks] = {}
            for (target, _), future in progress:
                talks_by_target.setdefault(target, []).append(future.result())
            return talks_by_target
    finally:
        runtime.close()


def columns_by_rule(talks: Talks, chunk_s: float) -> dict[str, Columns]:
    """Return the figures of each rule in every resample of the sentences of a target."""
    sentences = [sentence for talk in talks for sentence in talk]
    weights = resampling(len(sentences))
    fronts: dict[str, list[Outcome]] = {}
    for name, create in CLASSIFIERS.items():
        probabilities = predicted(talks, create())
        rules = [at_least(probabilities, threshold) for threshold in THRESHOLDS]
        fronts[name] = [simulate(sentences, rule) for rule in rules]
    by_rule: dict[str, Columns] = {}
    for label, rule in RULES.items():
        outcome = simulate(sentences, rule)
        waits, wrong = outcome.points(weights)
        columns = {"wait_s": chunk_s * waits, "wrong": 100 * wrong}
        for name, front in fronts.items():
            columns[name] = 100 * excess(outcome, front, weights)
        by_rule[label] = columns
    return by_rule


def mean_of(targets: Collection[dict[str, Columns]]) -> dict[str, Columns]:
    """Return the averages over targets.

    A resample draws the same sentences in all targets, if they have the same number.
    """
    by_rule: dict[str, Columns] = {}
    for label in RULES:
        columns: Columns = {}
        for name in ("wait_s", "wrong", *CLASSIFIERS):
            columns[name] = np.mean([by_label[label][name] for by_label in targets], axis=0)
        by_rule[label] = columns
    return by_rule


def rows_of(talks_by_target: Mapping[str, Talks], chunk_s: float) -> Iterator[dict[str, Any]]:
    """Yield the figures of each rule for each target, and of the mean of all targets."""
    targets: dict[str, dict[str, Columns]] = {}
    for target, talks in talks_by_target.items():
        targets[target] = columns_by_rule(talks, chunk_s)
    if len(targets) > 1:
        targets[MEAN] = mean_of(targets.values())
    for target, by_rule in targets.items():
        for label, columns in by_rule.items():
            figures = {name: estimate_json(estimate(values)) for name, values in columns.items()}
            yield {"target": target, "rule": label, **figures}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Format the figures for a terminal."""
    headers = ["target", "rule", "wait, s", "wrong", *(f"{name} minus" for name in CLASSIFIERS)]
    lines: list[list[str]] = []
    for row in rows:
        line = [row["target"], row["rule"]]
        line.append(_cell(row["wait_s"], ".2f"))
        line += [_cell(row[column], ".0f") for column in ("wrong", *CLASSIFIERS)]
        lines.append(line)
    return commands.table(lines, headers)


def _cell(figures: Mapping[str, float | None], form: str) -> str:
    """Format a figure with its interval."""
    if figures["value"] is None:
        return "-"
    return f"{figures['value']:{form}} [{figures['low']:{form}}, {figures['high']:{form}}]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    config = load_config(arguments.config, parse_overrides(arguments.overrides))
    devset = load_devset(arguments.devset, arguments.target)
    if arguments.streams < 1:
        raise ConfigError(f"--streams {arguments.streams}: expected a number of talks, 1 or more")
    if len(devset.talks) < 2:
        raise ConfigError(
            f"{arguments.devset} has {len(devset.talks)} talk, expected 2 or more: classifiers are "
            "fitted to all talks but the one on which they decide"
        )
    talks_by_target = record_all(arguments, config, devset)
    rows = list(rows_of(talks_by_target, config.chunk_ms / 1000))
    print(table(rows))
    sentences: dict[str, int] = {}
    for target, talks in talks_by_target.items():
        sentences[target] = sum(map(len, talks))
    content = {
        **commands.machine(),
        "config": arguments.config,
        "devset": devset.digest(arguments.target[0]),
        "chunk_ms": config.chunk_ms,
        "sentences": sentences,
        "rows": rows,
    }
    commands.write_json(arguments.output / "signals.json", content)
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.signals", main))
