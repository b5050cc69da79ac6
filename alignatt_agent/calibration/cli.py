"""Find the attention heads of a model that follow the source.

For examples of each command: alignatt calibrate COMMAND --help
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from alignatt_agent.calibration import contamination, pairs_file
from alignatt_agent.calibration.align import add_options, build_aligner, not_aligned
from alignatt_agent.calibration.head_scores import ROWS
from alignatt_agent.calibration.head_set_file import write
from alignatt_agent.calibration.merge import losses, merge
from alignatt_agent.calibration.pairs import Pairs, PairsError, without_repeats
from alignatt_agent.calibration.pairs_file import read_pairs
from alignatt_agent.calibration.select_heads import CalibrationPlan, calibrate, print_report
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.command_line import page
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.cache import ResultCache


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser with the commands ``run`` and ``merge``."""
    parser = argparse.ArgumentParser("alignatt calibrate", **page(__doc__))
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run_page = page(_run.__doc__)
    # Only this command reads pairs.
    pairs_format = page(pairs_file.__doc__)["epilog"]
    run_page["epilog"] += f"\n\n{pairs_format}"
    run_command = commands.add_parser("run", help=run_page["description"], **run_page)
    _run_options(run_command)
    run_command.set_defaults(command=_run)

    merge_page = page(_merge.__doc__)
    merge_command = commands.add_parser("merge", help=merge_page["description"], **merge_page)
    _merge_options(merge_command)
    merge_command.set_defaults(command=_merge)
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("model").add_argument
    text = "configuration with the translation model and prompt to calibrate"
    add("--config", required=True, help=text)
    add = parser.add_argument_group("pairs").add_argument
    add("--source", metavar="CODE", help="source language; default: from the configuration")
    add("--target", required=True, metavar="CODE", help="target language, e.g. de")
    add("--pairs", required=True, metavar="FILE", help="pairs for choosing heads; see below")
    text = "held-out pairs for evaluating heads: a file or a share of --pairs; default %(default)s"
    add("--held-out", metavar="FILE|SHARE", default="0.3", help=text)
    text = "dev set whose sentences are excluded, like those of the embedded dev set; repeatable"
    add("--devset", type=Path, action="append", default=[], metavar="DIR", help=text)
    add = parser.add_argument_group("head set").add_argument
    text = "query whose attention row represents a token; default: the query with the better score"
    add("--row", choices=ROWS, help=text)
    add("--keep", type=int, default=8, metavar="K", help="number of heads; default 8")
    text = "file of the head set; default outputs/head_sets/MODEL-SOURCE-TARGET.json"
    add("--output", type=Path, metavar="FILE", help=text)
    add_options(parser.add_argument_group("word alignments"))


def _merge_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sets", nargs="+", metavar="SET", help="names or paths of head sets of one model")
    text = "head sets of further targets, used only to evaluate the merged head set"
    add("--judge", nargs="+", default=[], metavar="SET", help=text)
    add("--keep", type=int, default=8, metavar="K", help="number of heads; default 8")
    add("--output", type=Path, required=True, metavar="FILE", help="file of the merged head set")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    status: int = arguments.command(arguments)
    return status


def _run(arguments: argparse.Namespace) -> int:
    r"""Score all heads of a model and write the best heads as a head set.

    The Translation Score of a head is the share of aligned target tokens whose attention peak in
    this head lies on an aligned source word, under the prompt that the agent uses.

    Examples:
      calibrate the embedded model on 60 generated pairs and evaluate the heads on 60 other pairs:
        alignatt calibrate run --config micro-low --target de \
            --pairs micro:60:77 --held-out micro:60:78

      calibrate the translation model and prompt of a configuration:
        alignatt calibrate run --config hy-mt-1.8b-low --target de --pairs pairs.en-de.tsv

      let a chat model align the words; without --yes, the command only prints the estimated cost:
        alignatt calibrate run --config default-low --target de \
            --pairs pairs.en-de.tsv --aligner openai --endpoint https://HOST/v1 \
            --aligner-model NAME --price 0.25 2.00 --yes

    output files
      OUTPUT.json      the head set, which a configuration lists under head_sets
      OUTPUT.sqlite    word alignments and scores of every pair. The command resumes from this
                       file and computes only the missing pairs. To start again, delete the
                       file.

    exit status: 0 success; 1 the run failed; 2 failure before the start
    """
    plan = _plan(arguments)
    aligner = plan.aligner
    # Requests may cost money, so they need consent; a resumed run may need none.
    if aligner is not None and not arguments.yes:
        with ResultCache(plan.cache) as cache:
            missing = not_aligned(aligner, plan.all_pairs, cache)
        if missing:
            estimate = aligner.estimate(missing)
            print(
                f"word alignments from {arguments.endpoint} would require about "
                f"{estimate}.\nNo request was sent; add --yes to continue."
            )
            return 2
    content = calibrate(plan)
    print_report(plan, content)
    return 0


def _plan(arguments: argparse.Namespace) -> CalibrationPlan:
    """Build the plan after all checks that require no model."""
    config = load_config(arguments.config)
    source = language(arguments.source or config.source_language)
    target = language(arguments.target)
    evaluation_sentences = contamination.known_sentences(arguments.devset)
    # Both files share it, so no held-out pair is also a pair for choosing heads.
    seen: set[tuple[tuple[str, ...], str]] = set()

    def read(spec: str) -> Pairs:
        all_pairs = read_pairs(spec, source, target)
        clean_pairs = contamination.leave_out(all_pairs, evaluation_sentences)
        return without_repeats(clean_pairs, seen)

    share = _share(arguments.held_out)
    pairs = read(arguments.pairs)
    held_out = share or read(arguments.held_out)
    model_name = Path(config.models.translation.path).name
    file_name = f"{model_name}-{source.code}-{target.code}.json"
    return CalibrationPlan(
        config=config,
        source=source,
        target=target,
        pairs=pairs,
        held_out=held_out,
        aligner=build_aligner(arguments, source, target),
        output=arguments.output or Path("outputs/head_sets", file_name),
        row=arguments.row,
        top_k=arguments.keep,
    )


def _share(text: str) -> float | None:
    """Parse a share; return ``None`` for the name of a file."""
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise PairsError(f"--held-out {text}: expected a share between 0 and 1")
    return share


def _merge(arguments: argparse.Namespace) -> int:
    r"""Merge the head sets of several targets into one head set for any target.

    The merged set contains the heads with the best mean Translation Scores. It is marked as
    provisional. For targets without their own set, enter it as ``"*"`` under ``head_sets``.

    Example:
      merge the heads of Italian and Chinese, and evaluate them on German:
        alignatt calibrate merge micro-en-it micro-en-zh --judge micro-en-de --output any.json
    """
    sets = [load_head_set(name) for name in arguments.sets]
    content, heads = merge(sets, arguments.keep)
    write(arguments.output, content)
    judges = [load_head_set(name) for name in arguments.judge]
    rows = losses(heads, sets + judges)
    print(tabulate(rows, ["direction", "own heads", "merged", ""], floatfmt=".3f"))
    print(f"mean Translation Score of {len(heads)} heads; head set written to {arguments.output}")
    return 0
