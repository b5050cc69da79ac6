r"""Compare acceptance policies on transcripts, word by word, in minutes.

Sentences of a dev set arrive as perfect text, a fixed number of words at a time. The product's own
translator drafts, decides and emits. All rules share drafts: each token of a source is decoded once
and stored in OUT/drafts.sqlite. The bench selects rules; only speech supports claims.

Lag is the mean lag of emitted words (characters in unspaced scripts) in source words, as in LAAL.
"own" compares with the off-line translation of the same model. The oracle emits what its off-line
translation begins with. The bound is a search, guided by the reference, for the best emissions. It
shows what a policy could gain at most, not what one can be expected to reach.

Examples:
  compare all rules on 40 sentences into German:
    python -m lab.policy_bench --devset DIR --target de --sentences 40 --output OUT
  compare two rules, three words at a time, as in chunks of one second:
    python -m lab.policy_bench --devset DIR --target de it zh --words 3 --output OUT \
        --only "agree 2" "gate -2" --against "agree 2"
  count numbers that are wrong in the stream but right off-line:
    python -m lab.policy_bench --numbers --devset DIR --target de --only "gate -2" --output OUT
  compute both bounds:
    python -m lab.policy_bench --devset DIR --target de --only --bounds --output OUT

files in OUT
  drafts.sqlite    drafts of all runs; an interrupted command resumes
  bench-TARGET-N.json     figures of all rules, N words at a time
  numbers-TARGET-N.json   counts of wrong numbers, with --numbers
  texts-*.json            all translations of such a file

What the bench does not show: errors of recognition, words that are revised, and the delay until the
end of a sentence is known.

exit status: 0 success; 2 nothing was started
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.score import bleu_tokenizer
from alignatt_agent.machine.packages import versions
from alignatt_agent.types.engines import DraftRequest
from lab import commands
from lab.curves.direction import Direction
from lab.curves.pareto import Resampled, SegmentScores
from lab.curves.runs import side_by_side
from lab.curves.shared_drafts import SharedDrafts
from lab.policy_bench.bounds import PRICES, Search
from lab.policy_bench.numbers import SENTENCES, late_faults
from lab.policy_bench.replay import Build, Output, replay
from lab.policy_bench.rules import RULES, build_of, oracle_of

ORACLE = "oracle: own off-line translation"
OFFLINE = "off-line"
BOUND = "bound: reference, {price:g} BLEU per word"


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.policy_bench", __doc__)
    add = parser.add_argument
    shared_options(
        parser,
        config={"default": "laptop-low"},
        target={"default": ["de", "it", "zh"]},
        devset={"required": True},
        output={"required": True},
    )
    text = "number of words that arrive at a time; default %(default)s"
    add("--words", type=int, default=1, metavar="N", help=text)
    text = "number of sentences; default: all"
    add("--sentences", type=int, metavar="N", help=text)
    add("--only", nargs="*", metavar="RULE", help="rules to compare; default: all")
    text = "rule with which all rules are compared; default %(default)s"
    add("--against", default="agree 3", metavar="RULE", help=text)
    text = "translate 40 sentences with numbers instead of the dev set, and count wrong numbers"
    add("--numbers", action="store_true", help=text)
    add("--bounds", action="store_true", help="search for the best emissions, too (slow)")
    text = "number of concurrent sentences, which are batched; default %(default)s"
    add("--streams", type=int, default=24, metavar="N", help=text)
    return parser


class Bench:
    """The sentences of one target, with shared drafts and the outputs of rules so far."""

    def __init__(
        self, direction: Direction, sources: Sequence[str], references: Sequence[str], step: int
    ) -> None:
        self.direction = direction
        self.sources = sources
        self.references = references
        self._step = step
        self.outputs: dict[str, list[Output]] = {}

    def prime(self, pool: ThreadPoolExecutor) -> None:
        """Draft the beginnings of all sentences from the start, so that rules share these drafts.

        A draft can be shared only from its first token on, and rules accept different tokens.
        """
        # The list waits for all sentences and raises their errors.
        list(pool.map(self._prime, self.sources))

    def _prime(self, source: str) -> None:
        words = source.split()
        direction, builder = self.direction, self.direction.builder
        for heard in [*range(self._step, len(words), self._step), len(words)]:
            prompt = builder.build(words[:heard])
            # A draft of twice the expected length is a loop, see ``Drafter.finish``.
            max_tokens = round(2 * builder.expansion * len(prompt.token_word)) + 16
            direction.engine.draft(DraftRequest(prompt, max_tokens, direction.readout))

    def offline(self, pool: ThreadPoolExecutor) -> list[tuple[int, ...]]:
        """Translate whole sentences; return their token ids."""
        sentences = [source.split() for source in self.sources]
        translations = list(pool.map(self.direction.offline, sentences))
        outputs: list[Output] = []
        for source, token_ids in zip(self.sources, translations, strict=True):
            # All words of the sentence are heard before its only unit.
            words = len(source.split())
            outputs.append(Output((self.direction.text(token_ids),), (words,)))
        self.outputs[OFFLINE] = outputs
        return translations

    def run(self, label: str, builds: Iterable[Build], pool: ThreadPoolExecutor) -> None:
        """Translate all sentences with a rule, several at a time."""

        def translate(source: str, build: Build) -> Output:
            return replay(self.direction, build, source, self._step)

        self.outputs[label] = list(pool.map(translate, self.sources, builds))

    def search(self, pool: ThreadPoolExecutor) -> None:
        """Search for the best emissions of each sentence."""
        tokenizer = bleu_tokenizer(self.direction.target.code)

        def best(source: str, reference: str) -> dict[float, Output]:
            return Search(self.direction, source, reference, tokenizer, self._step).best()

        best_by_price = list(pool.map(best, self.sources, self.references))
        for price in PRICES:
            label = BOUND.format(price=price)
            self.outputs[label] = [outputs[price] for outputs in best_by_price]

    def scores(self) -> tuple[Resampled, Resampled]:
        """Return all scores against the references, and against the own off-line translation."""
        offline = [output.text for output in self.outputs[OFFLINE]]
        segments: dict[str, SegmentScores] = {}
        offline_segments: dict[str, SegmentScores] = {}
        for label in self.outputs:
            segments[label] = self._segments(label, self.references)
            offline_segments[label] = self._segments(label, offline)
        return Resampled(segments), Resampled(offline_segments)

    def _segments(self, label: str, references: Sequence[str]) -> SegmentScores:
        target = self.direction.target
        texts: list[str] = []
        lags: list[float] = []
        for output, source, reference in zip(
            self.outputs[label], self.sources, self.references, strict=True
        ):
            texts.append(output.text)
            lags.append(output.lag(len(source.split()), reference, target.spaced))
        # The lag takes the place of both latencies.
        return SegmentScores.of(texts, references, lags, lags, bleu_tokenizer(target.code))


def compared(bench: Bench, against: str) -> list[dict[str, Any]]:
    """Return a row of figures for every rule, with paired differences to ``against``."""
    scores, offline_scores = bench.scores()
    rows: list[dict[str, Any]] = []
    for label in bench.outputs:
        row: dict[str, Any] = {"rule": label}
        for key, score in (("bleu", "bleu"), ("chrf", "chrf"), ("lag", "cu_ms")):
            row[key] = scores.interval(label, score).as_json()
            if against in bench.outputs:
                row[f"{key}_difference"] = scores.difference(label, against, score).as_json()
        row["own_bleu"] = offline_scores.interval(label, "bleu").as_json()
        rows.append(row)
    return rows


def line_of(row: Mapping[str, Any]) -> list[str]:
    """Format the figures of a rule for a terminal."""
    cells = [row["rule"]]
    for key, form in (("bleu", ".1f"), ("chrf", ".1f"), ("own_bleu", ".1f"), ("lag", ".2f")):
        cells.append(format(row[key]["value"], form))
    for key in ("bleu", "chrf", "lag"):
        difference = row.get(f"{key}_difference")
        if difference is None:  # the rule to compare with was not run
            cells.append("")
            continue
        cells.append("{value:+.2f} [{low:+.2f}, {high:+.2f}]".format(**difference))
    return cells


def wrong_numbers(bench: Bench) -> list[dict[str, Any]]:
    """Print and return the number of wrong numbers of each rule."""
    texts = outputs_of(bench)
    target = bench.direction.target.code
    rows: list[dict[str, Any]] = []
    for label in bench.outputs:
        if label == OFFLINE:
            continue
        wrong = late_faults(texts[label], texts[OFFLINE], target)
        row: dict[str, Any] = {"rule": label}
        for kind, places in wrong.items():
            row[kind] = len(places)
        rows.append(row)
        for place in wrong["stream_only"]:
            source = texts["source"][place]
            offline = texts[OFFLINE][place]
            streamed = texts[label][place]
            print(f"{label}: {source} | {offline} | {streamed}")
    headers = (f"en-{target}, {len(SENTENCES)} numbers", "wrong off-line", "wrong only streamed")
    cells = [[row["rule"], str(row["offline"]), str(row["stream_only"])] for row in rows]
    print(commands.table(cells, headers))
    return rows


def outputs_of(bench: Bench) -> dict[str, list[str]]:
    """Return the texts of all rules, to be read."""
    texts = {"source": list(bench.sources), "reference": list(bench.references)}
    for label, outputs in bench.outputs.items():
        texts[label] = [output.text for output in outputs]
    return texts


def conduct(
    arguments: argparse.Namespace, config: AgentConfig, devset: DevSet, runtime: Runtime
) -> Iterator[tuple[Bench, list[dict[str, Any]]]]:
    """Run all rules; yield the bench of each target with its table."""
    models = side_by_side(config.models, arguments.streams)
    config = config.model_copy(update={"models": models})
    resolved = runtime.resolve(config, arguments.target)
    engines = runtime.load(resolved)
    # The rules define the other three keys.
    gate = config.policy.model_dump(exclude={"name", "drafts", "border_margin"})
    packages = versions()
    model = resolved.identities()["translation"]
    name = f"{model}:{packages['vllm']}:{packages['torch']}"
    with (
        ResultCache(arguments.output / "drafts.sqlite") as cache,
        ThreadPoolExecutor(arguments.streams, "sentence") as pool,
    ):
        drafts = SharedDrafts(engines.translation, cache, name)
        sharing = replace(engines, translation=drafts)
        for target in arguments.target:
            direction = Direction.of(resolved, sharing, target)
            sources, references = sentences_of(arguments, devset, target)
            bench = Bench(direction, sources, references, arguments.words)
            run_all(bench, arguments, gate, drafts, pool)
            if arguments.numbers:
                yield bench, wrong_numbers(bench)
                continue
            rows = compared(bench, arguments.against)
            print(f"\nen-{target}, {len(sources)} sentences, {arguments.words} words at a time")
            print(_table(rows, arguments.against), flush=True)
            yield bench, rows


def run_all(
    bench: Bench,
    arguments: argparse.Namespace,
    gate: Mapping[str, Any],
    drafts: SharedDrafts,
    pool: ThreadPoolExecutor,
) -> None:
    """Translate all sentences off-line, with the oracle, with each rule, and with the bounds.

    ``gate`` contains the settings that all rules with attention rows share.
    """
    labels = dict.fromkeys(RULES if arguments.only is None else arguments.only)
    target = bench.direction.target.code
    bench.prime(pool)
    translations = bench.offline(pool)
    oracles = [oracle_of(token_ids) for token_ids in translations]
    bench.run(ORACLE, oracles, pool)
    for label in labels:
        begin = time.monotonic()
        requests_before, computed_before = drafts.requests, drafts.computed
        build = build_of(label, gate)
        bench.run(label, [build] * len(bench.sources), pool)
        seconds = time.monotonic() - begin
        requests = drafts.requests - requests_before
        computed = drafts.computed - computed_before
        print(f"{target}, {label}: {seconds:.0f} s, {requests} drafts, {computed} new", flush=True)
    if arguments.bounds:
        bench.search(pool)


def sentences_of(
    arguments: argparse.Namespace, devset: DevSet, target: str
) -> tuple[list[str], list[str]]:
    """Return the sentences to translate and their references."""
    if arguments.numbers:
        sources = [str(sentence["source"]) for sentence in SENTENCES]
        return sources, sources
    assert devset.transcript is not None
    sources = read_lines(devset.transcript)
    references = read_lines(devset.references[target])
    return sources[: arguments.sentences], references[: arguments.sentences]


def _table(rows: Sequence[Mapping[str, Any]], against: str) -> str:
    ordered = sorted(rows, key=lambda row: float(row["lag"]["value"]))
    # The last three columns are differences.
    difference = f"minus {against}: BLEU"
    headers = ("rule", "BLEU", "chrF", "own BLEU", "lag, words", difference, "chrF", "lag")
    return commands.table([line_of(row) for row in ordered], headers)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    labels = {*(arguments.only or ()), arguments.against}
    unknown = sorted(labels - set(RULES))
    if unknown:
        raise ConfigError(f"no rule {', '.join(unknown)}; rules: {', '.join(RULES)}")
    for option in ("words", "streams"):
        count = getattr(arguments, option)
        if count < 1:
            raise ConfigError(f"--{option} {count}: expected a number of 1 or more")
    config = load_config(arguments.config)
    devset = load_devset(arguments.devset, arguments.target, audio=False)
    if devset.transcript is None:
        raise ConfigError(f"{arguments.devset} has no transcript ref/{config.source_language}.txt")
    runtime = Runtime()
    kind = "numbers" if arguments.numbers else "bench"
    try:
        for bench, rows in conduct(arguments, config, devset, runtime):
            code = bench.direction.target.code
            content = {
                **commands.machine(),
                "config": arguments.config,
                "devset": devset.digest(code),
                "words": arguments.words,
                "sentences": len(bench.sources),
                "against": arguments.against,
                "targets": {code: rows},
            }
            path = arguments.output / f"{kind}-{code}-{arguments.words}.json"
            commands.write_json(path, content)
            commands.write_json(path.with_name(f"texts-{path.name}"), outputs_of(bench))
    finally:
        runtime.close()
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.policy_bench", main))
